#include "src/model/model_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "src/codec/update.hpp"

namespace sparcl::model {

codec::BlockMap make_block_map(const Schema& schema) {
  std::vector<codec::ArraySpec> arrays;
  arrays.reserve(schema.size());
  for (const TensorSchema& tensor : schema) {
    const Result<std::uint64_t> count = element_count(tensor);
    arrays.push_back({tensor.datatype, count.ok() ? *count : 0});
  }
  return codec::BlockMap(arrays);
}

namespace {

Status check(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(validate(schema));
  if (tensors.size() == schema.size()) return {};
  return Status(Code::kInvalidArgument, fmt::format("{} arrays for a state of {} tensors", tensors.size(), schema.size()));
}

// The schema is valid: its count exists.
std::span<const std::byte> bytes_of(const TensorSchema& tensor, const std::byte* data) {
  return {data, static_cast<std::size_t>(*element_count(tensor)) * element_bytes(tensor.datatype)};
}

std::string_view torch_name(DataType type) {
  switch (type) {
    case DataType::kFloat8e4m3:
      return "float8_e4m3fn";
    case DataType::kFloat8e5m2:
      return "float8_e5m2";
    default:
      return info(type).name;  // PyTorch's own
  }
}

}  // namespace

Result<Hash128> state_hash(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  return codec::state_hash(make_block_map(schema), tensors, schema_hash(schema));
}

Result<Hash128> xxh3_hash(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  Xxh3 hash;
  hash.update(serialise(schema));
  for (std::size_t i = 0; i < schema.size(); ++i) hash.update(bytes_of(schema[i], tensors[i]));
  return hash.finish();
}

Result<Sha256::Digest> weights_hash(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  std::vector<std::size_t> order(schema.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // By bytes, which for UTF-8 is the order of Python's sorted().
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return schema[a].name < schema[b].name; });
  Sha256 hash;
  for (const std::size_t i : order) {
    const std::string head = fmt::format("{}torch.{}", schema[i].name, torch_name(schema[i].datatype));
    hash.update(std::as_bytes(std::span(head)));
    hash.update(bytes_of(schema[i], tensors[i]));
  }
  return hash.finish();
}

Result<Hash128> state_hash(const Checkpoint& checkpoint) { return state_hash(checkpoint.schema(), checkpoint.pointers()); }

}  // namespace sparcl::model
