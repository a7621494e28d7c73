#include "collectives/call_names.hpp"

#include <fmt/format.h>

#include <array>

#include "collectives/agreement/agreement.hpp"
#include "collectives/all_reduce/dense.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"

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

bool is_top_k(std::uint32_t operation) { return operation == static_cast<std::uint32_t>(CallKind::kAllReduceTopK); }

std::string_view determinism_name(Determinism determinism) { return determinism == Determinism::kCanonical ? "canonical" : "runs"; }

// Rows that are forced count from 1.
template <class Rows>
std::string_view forced_name(Rows rows, std::uint32_t forced) {
  return forced == 0 ? "auto" : forced <= rows.size() ? rows[forced - 1].name : "unknown";
}

}  // namespace

std::string_view algorithm_setting(std::uint32_t operation, std::uint32_t row) {
  if (is_top_k(operation) && (row & kDenseChoice) != 0) return "SPARCL_ALGO_ALLREDUCE";
  if (is_sparse_sum(operation)) return "SPARCL_ALGO_ALLREDUCE_SPARSE";
  return has_root(operation) ? "SPARCL_ALGO_BROADCAST" : "SPARCL_ALGO_ALLREDUCE";
}

std::string_view algorithm_name(std::uint32_t operation, std::uint32_t row) {
  if (has_root(operation) && row == kNcclFanout) return kNcclFanoutName;
  if (has_root(operation)) return row < fanout_table().size() ? fanout_table()[row].name : "unknown";
  if (is_top_k(operation) && (row & kDenseChoice) != 0) return forced_name(dense_table(), row & ~std::uint32_t{kDenseChoice});
  return is_sparse_sum(operation) ? forced_name(sparse_sum_table(), row) : forced_name(dense_table(), row);
}

std::string differing_options(std::uint32_t operation, std::uint64_t detail, std::uint64_t other) {
  if (operation == static_cast<std::uint32_t>(CallKind::kAllReduceSparse))
    return fmt::format(", determinism {}", determinism_name(static_cast<Determinism>(detail)));
  if (!is_top_k(operation)) return {};
  const TopKOptions own = unpack_options(detail), theirs = unpack_options(other);
  constexpr std::array<std::string_view, 4> kModes{"union", "selected", "global", "unknown"};
  std::string text;
  if (own.k != theirs.k) text += fmt::format(", k {}", own.k);
  if (own.mode != theirs.mode) text += fmt::format(", mode {}", kModes[static_cast<std::size_t>(own.mode)]);
  if (own.wire != theirs.wire) text += fmt::format(", wire {}", static_cast<int>(own.wire));
  if (own.determinism != theirs.determinism) text += fmt::format(", determinism {}", determinism_name(own.determinism));
  return text;
}

}  // namespace sparcl::collectives
