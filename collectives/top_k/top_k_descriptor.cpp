#include <fmt/format.h>

#include <array>

#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"

namespace sparcl::collectives::top_k {
namespace {

const comm::AlgorithmChoice& choice(std::uint8_t algorithm) {
  return (algorithm & kDenseChoice) != 0 ? dense::kDenseAlgorithms
                                         : sparse_sum::kSparseSumAlgorithms;
}

std::string_view algorithm(std::uint8_t row) {
  if ((row & kDenseChoice) != 0)
    return dense::forced_dense_name(row & static_cast<std::uint8_t>(~kDenseChoice));
  return sparse_sum::forced_row_name(row);
}

// The options in `detail` that differ from the other call's.
std::string differing_options(std::uint64_t detail, std::uint64_t other) {
  const TopKOptions own = unpack_options(detail), theirs = unpack_options(other);
  constexpr std::array<std::string_view, 4> kModes{"union", "selected", "global", "unknown"};
  std::string text;
  if (own.k != theirs.k) text += fmt::format(", k {}", own.k);
  if (own.mode != theirs.mode) text += fmt::format(", mode {}", kModes[own.mode]);
  if (own.wire != theirs.wire) text += fmt::format(", wire {}", own.wire);
  if (own.determinism != theirs.determinism)
    text += fmt::format(", determinism {}", determinism_name(own.determinism));
  return text;
}

CallDifference options(const CallPair& calls) {
  return {"options", differing_options(calls.lower.detail, calls.upper.detail),
          differing_options(calls.upper.detail, calls.lower.detail)};
}

}  // namespace

const CollectiveDescriptor kAllReduceTopK{
    CallKind::kAllReduceTopK, "sparclAllReduceTopK", false, choice, algorithm, nullptr, options,
    comm::location_of_arrays};

}  // namespace sparcl::collectives::top_k
