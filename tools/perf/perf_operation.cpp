#include "tools/perf/perf_operation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace sparcl::perf {
namespace {

const std::vector<ElementType> kTypes{{"float32", sparclFloat32, 4},
                                      {"float64", sparclFloat64, 8},
                                      {"bfloat16", sparclBfloat16, 2},
                                      {"int32", sparclInt32, 4},
                                      {"int64", sparclInt64, 8}};

// The bits of a whole number, of which bfloat16 has all that are used here.
std::uint64_t bits_of(const ElementType& type, int value) {
  switch (type.type) {
    case sparclFloat32:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    case sparclFloat64:
      return std::bit_cast<std::uint64_t>(static_cast<double>(value));
    case sparclBfloat16:
      return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16;
    default:
      return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
  }
}

}  // namespace

const ElementType& element_type(const std::string& name) {
  for (const ElementType& type : kTypes) {
    if (type.name == name) return type;
  }
  return kTypes.front();  // the options have been checked
}

std::vector<std::string> element_type_names() {
  std::vector<std::string> names;
  for (const ElementType& type : kTypes) names.emplace_back(type.name);
  return names;
}

const std::vector<OperationRow>& operation_table() {
  static const std::vector<OperationRow> table{
      {"allreduce_masked", {"--redraw"}, make_all_reduce_masked},
      {"allreduce_sparse", {"--overlap"}, make_all_reduce_sparse},
      {"allreduce_topk", {"--overlap", "--mode", "--wire"}, make_all_reduce_top_k},
      {"broadcast_delta", {}, make_broadcast_delta},
      {"broadcast_sparse", {}, make_broadcast_sparse}};
  return table;
}

const OperationRow& find_operation(const std::string& name) {
  return *std::find_if(operation_table().begin(), operation_table().end(),
                       [&](const OperationRow& row) { return row.name == name; });
}

Algorithms algorithms_of(const Options& options) {
  if (options.op.starts_with("broadcast"))
    return {"SPARCL_ALGO_BROADCAST", {"chain", "binary_tree", "binomial_tree"}};
  const bool is_dense =
      options.op == "allreduce_masked" || (options.is_top_k() && options.mode == "union");
  if (is_dense) return {"SPARCL_ALGO_ALLREDUCE", {"direct", "owner"}};
  return {"SPARCL_ALGO_ALLREDUCE_SPARSE", {"gather", "doubling", "split", "two_level"}};
}

void put(const ElementType& type, std::byte* array, std::uint64_t element, int value) {
  const std::uint64_t bits = bits_of(type, value);
  std::memcpy(array + element * type.bytes, &bits, type.bytes);
}

bool holds(const ElementType& type, const std::byte* array, std::uint64_t element, int value) {
  const std::uint64_t bits = bits_of(type, value);
  return std::memcmp(array + element * type.bytes, &bits, type.bytes) == 0;
}

}  // namespace sparcl::perf
