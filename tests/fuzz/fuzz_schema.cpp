// A schema as bytes: refused, or exactly what its tensors are written as.

#include <algorithm>

#include "src/model/schema.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sparcl::fuzz {
namespace {

void run(std::span<const std::byte> input) {
  const Result<model::Schema> schema = model::parse_schema(input);
  if (!schema.ok()) return;
  require(model::validate(*schema).ok(), "an accepted schema is valid");
  const Bytes again = model::serialise(*schema);
  require(std::ranges::equal(again, input), "a schema has one form");
}

std::vector<Bytes> seeds() {
  const model::Schema schema{{"a", DataType::kBfloat16, {4, 3}},
                             {"norm", DataType::kFloat32, {}},
                             {"e", DataType::kBool, {0}}};
  const model::Schema slices{
      {"qkv", DataType::kBfloat16, {6, 4}, model::TensorSlice{{0, 0}, {2, 4}}},
      {"qkv", DataType::kBfloat16, {6, 4}, model::TensorSlice{{4, 2}, {2, 2}}},
      {"b", DataType::kInt8, {9}}};
  return {model::serialise(schema), model::serialise({}), model::serialise(slices)};
}

const Registration registration({"schema", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
