#include "tools/perf/perf_operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::perf {
namespace {

const std::vector<ElementType> kTypes{{"float32", sparclFloat32, 4},
                                      {"float64", sparclFloat64, 8},
                                      {"bfloat16", sparclBfloat16, 2},
                                      {"int32", sparclInt32, 4},
                                      {"int64", sparclInt64, 8}};

// The bits of a whole number. bfloat16 represents all that are used here.
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
      {"aggregate", {"--overlap", "--ranks"}, make_all_reduce_sparse},
      {"broadcast_delta", {}, make_broadcast_delta},
      {"broadcast_sparse", {}, make_broadcast_sparse}};
  return table;
}

const OperationRow& find_operation(const std::string& name) {
  return *std::find_if(operation_table().begin(), operation_table().end(),
                       [&](const OperationRow& row) { return row.name == name; });
}

namespace {

std::vector<std::string> names_of(const comm::AlgorithmChoice& choice) {
  std::vector<std::string> names;
  for (const std::string_view name : choice.names()) {  // arrays are in host memory
    if (name != collectives::broadcast::kNcclFanoutName) names.emplace_back(name);
  }
  return names;
}

}  // namespace

Algorithms algorithms_of(const Options& options) {
  const bool is_dense =
      options.op == "allreduce_masked" || (options.is_top_k() && options.mode == "union");
  const comm::AlgorithmChoice& choice =
      options.op == "aggregate"             ? collectives::aggregate::kAggregateAlgorithms
      : options.op.starts_with("broadcast") ? collectives::broadcast::kFanoutAlgorithms
      : is_dense                            ? collectives::dense::kDenseAlgorithms
                                            : collectives::sparse_sum::kSparseSumAlgorithms;
  return {"SPARCL_" + std::string(choice.setting), names_of(choice)};
}

std::string algorithm_names() {
  return fmt::format(
      "{} (allreduce_masked, allreduce_topk in mode union), {} (other all-reduces), {} "
      "(broadcasts), {} (aggregate)",
      fmt::join(names_of(collectives::dense::kDenseAlgorithms), ", "),
      fmt::join(names_of(collectives::sparse_sum::kSparseSumAlgorithms), ", "),
      fmt::join(names_of(collectives::broadcast::kFanoutAlgorithms), ", "),
      fmt::join(names_of(collectives::aggregate::kAggregateAlgorithms), ", "));
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
