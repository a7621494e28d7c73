#include "collectives/call_names.hpp"

#include <array>

#include "collectives/agreement/agreement.hpp"
#include "collectives/all_reduce/dense.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives {

std::string_view operation_name(std::uint32_t operation) {
  switch (static_cast<CallKind>(operation)) {
    case CallKind::kBroadcastDelta:
      return "sparclBroadcastDelta";
    case CallKind::kBroadcastUpdate:
      return "sparclBroadcastUpdate";
    case CallKind::kBroadcastSparse:
      return "sparclBroadcastSparse";
    case CallKind::kAllReduceMasked:
      return "sparclAllReduceMasked";
    case CallKind::kAllReduceSparse:
      return "sparclAllReduceSparse";
    case CallKind::kAllReduceTopK:
      return "sparclAllReduceTopK";
  }
  return "an unknown operation";
}

bool has_root(std::uint32_t operation) { return operation < static_cast<std::uint32_t>(CallKind::kAllReduceMasked); }

std::string_view reduction_name(std::uint8_t reduction) {
  constexpr std::array<std::string_view, 5> kNames{"sum", "prod", "max", "min", "avg"};  // as sparclRedOp_t numbers them
  return reduction < kNames.size() ? kNames[reduction] : "an unknown reduction";
}

namespace {
bool is_sparse_sum(std::uint32_t operation) { return operation >= static_cast<std::uint32_t>(CallKind::kAllReduceSparse); }
}  // namespace

std::string_view algorithm_setting(std::uint32_t operation) {
  if (is_sparse_sum(operation)) return "SPARCL_ALGO_ALLREDUCE_SPARSE";
  return has_root(operation) ? "SPARCL_ALGO_BROADCAST" : "SPARCL_ALGO_ALLREDUCE";
}

std::string_view algorithm_name(std::uint32_t operation, std::uint32_t row) {
  if (has_root(operation)) return row < fanout_table().size() ? fanout_table()[row].name : "unknown";
  if (is_sparse_sum(operation))
    return row == 0 ? "auto" : row <= sparse_sum_table().size() ? sparse_sum_table()[row - 1].name : "unknown";
  return row < dense_table().size() ? dense_table()[row].name : "unknown";
}

}  // namespace sparcl::collectives
