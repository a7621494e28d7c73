#include "src/model/model_hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "src/codec/state_hash.hpp"
#include "src/codec/update.hpp"
#include "src/model/checkpoint_source.hpp"

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

// Between two looks at the progress: 64 Mi elements, heuristic.
constexpr std::uint64_t kHashBlocks = 1024;
constexpr std::size_t kReadBytes = std::size_t{256}
                                   << 10;  // at once, of a file: in the cache, heuristic

Status check(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(validate(schema));
  if (tensors.size() == schema.size()) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{} arrays for a state of {} tensors", tensors.size(), schema.size()));
}

std::string_view torch_name(const TensorSchema& tensor) {
  if (tensor.opaque) {
    const OpaqueTypeInfo* known = find_opaque_type(tensor.opaque->name);
    return known != nullptr ? known->torch : std::string_view(tensor.opaque->name);
  }
  switch (tensor.datatype) {
    case DataType::kFloat8e4m3:
      return "float8_e4m3fn";
    case DataType::kFloat8e5m2:
      return "float8_e5m2";
    default:
      return info(tensor.datatype).name;  // PyTorch's own
  }
}

// Gives all bytes of a tensor to a hash.
class TensorBytes {
 public:
  TensorBytes(const Checkpoint& checkpoint, const FileWatch& watch)
      : checkpoint_(&checkpoint), watch_(&watch), total_(checkpoint.byte_count()) {}
  explicit TensorBytes(std::span<const std::byte* const> tensors) : tensors_(tensors) {}

  template <class Hash>
  Status add(const Schema& schema, std::size_t tensor, Hash& hash) {
    const std::uint64_t bytes = *element_count(schema[tensor]) *
                                element_bytes(schema[tensor].datatype);  // valid: it exists
    if (checkpoint_ == nullptr) {
      hash.update({tensors_[tensor], static_cast<std::size_t>(bytes)});
      return {};
    }
    piece_.resize(kReadBytes);
    for (std::uint64_t at = 0; at < bytes; at += kReadBytes) {
      const std::span<std::byte> some =
          std::span(piece_).first(std::min<std::uint64_t>(kReadBytes, bytes - at));
      SPARCL_RETURN_IF_ERROR(checkpoint_->read(tensor, at, some));
      hash.update(some);
      done_ += some.size();
      SPARCL_RETURN_IF_ERROR(watch_->progress(done_, total_));
    }
    return {};
  }
  Status check() const {
    return checkpoint_ == nullptr ? Status() : checkpoint_->check_unchanged();
  }

 private:
  const Checkpoint* checkpoint_ = nullptr;
  const FileWatch* watch_ = nullptr;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  std::span<const std::byte* const> tensors_;
  std::vector<std::byte> piece_;
};

Result<Hash128> xxh3_hash(const Schema& schema, TensorBytes bytes) {
  Xxh3 hash;
  hash.update(serialise(schema));
  for (std::size_t i = 0; i < schema.size(); ++i)
    SPARCL_RETURN_IF_ERROR(bytes.add(schema, i, hash));
  SPARCL_RETURN_IF_ERROR(bytes.check());
  return hash.finish();
}

Result<trust::Sha256::Digest> weights_hash(const Schema& schema, TensorBytes bytes) {
  std::vector<std::size_t> order(schema.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // By bytes, which for UTF-8 is the order of Python's sorted().
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return schema[a].name < schema[b].name; });
  trust::Sha256 hash;
  for (const std::size_t i : order) {
    const std::string head = fmt::format("{}torch.{}", schema[i].name, torch_name(schema[i]));
    hash.update(std::as_bytes(std::span(head)));
    SPARCL_RETURN_IF_ERROR(bytes.add(schema, i, hash));
  }
  SPARCL_RETURN_IF_ERROR(bytes.check());
  return hash.finish();
}

}  // namespace

Result<Hash128> state_hash(const Schema& schema, std::span<const std::byte* const> tensors,
                           const FileWatch& watch) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  return state_hash_from(schema, {{tensors.begin(), tensors.end()}}, watch);
}

Result<Hash128> state_hash_from(const Schema& schema, const codec::ArrayInput& tensors,
                                const FileWatch& watch) {
  const codec::BlockMap map = make_block_map(schema);
  const std::uint64_t blocks = map.block_count();
  Hash128 hash = schema_hash(schema);
  for (std::uint64_t first = 0; first < blocks; first += kHashBlocks) {
    const std::uint64_t last = std::min(first + kHashBlocks, blocks);
    hash = hash + codec::blocks_hash(map, tensors, first, last, kernels::cpu_kernels());
    SPARCL_RETURN_IF_ERROR(watch.part(last, blocks, map.byte_count()));
  }
  return hash;
}

Result<Hash128> state_hash(const Checkpoint& checkpoint, const FileWatch& watch) {
  const CheckpointSource source(checkpoint);
  SPARCL_ASSIGN_OR_RETURN(const Hash128 hash,
                          state_hash_from(checkpoint.schema(), source.input(), watch));
  SPARCL_RETURN_IF_ERROR(source.status());
  return hash;
}

Result<Hash128> xxh3_hash(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  return xxh3_hash(schema, TensorBytes(tensors));
}
Result<Hash128> xxh3_hash(const Checkpoint& checkpoint, const FileWatch& watch) {
  return xxh3_hash(checkpoint.schema(), TensorBytes(checkpoint, watch));
}

Result<trust::Sha256::Digest> weights_hash(const Schema& schema,
                                           std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(check(schema, tensors));
  return weights_hash(schema, TensorBytes(tensors));
}
Result<trust::Sha256::Digest> weights_hash(const Checkpoint& checkpoint, const FileWatch& watch) {
  return weights_hash(checkpoint.schema(), TensorBytes(checkpoint, watch));
}

}  // namespace sparcl::model
