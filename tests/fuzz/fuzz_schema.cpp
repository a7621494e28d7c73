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
  const model::Schema schema{{"a", DataType::kBfloat16, {4, 3}}, {"norm", DataType::kFloat32, {}}, {"e", DataType::kBool, {0}}};
  return {model::serialise(schema), model::serialise({})};
}

const Registration registration({"schema", run, seeds});

}  // namespace
}  // namespace sparcl::fuzz
