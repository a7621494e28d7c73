#include "src/model/model_hash.hpp"

#include <vector>

#include <fmt/format.h>

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

Result<Hash128> state_hash(const Schema& schema, std::span<const std::byte* const> tensors) {
  SPARCL_RETURN_IF_ERROR(validate(schema));
  if (tensors.size() != schema.size()) {
    return Status(Code::kInvalidArgument, fmt::format("{} arrays for a state of {} tensors", tensors.size(), schema.size()));
  }
  return codec::state_hash(make_block_map(schema), tensors, schema_hash(schema));
}

Result<Hash128> state_hash(const Checkpoint& checkpoint) { return state_hash(checkpoint.schema(), checkpoint.pointers()); }

}  // namespace sparcl::model
