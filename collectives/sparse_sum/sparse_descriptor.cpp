#include <fmt/format.h>

#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

const comm::AlgorithmChoice& choice(std::uint8_t) { return kSparseSumAlgorithms; }

CallDifference options(const CallPair& calls) {
  const auto text = [](const CallFingerprint& call, const CallFingerprint& other) {
    const SparseSumOptions own = unpack_options(call.detail), theirs = unpack_options(other.detail);
    std::string differing;
    if (own.determinism != theirs.determinism)
      differing += fmt::format(", determinism {}", determinism_name(own.determinism));
    if (own.wire != theirs.wire) differing += fmt::format(", wire {}", own.wire);
    return differing;
  };
  return {"options", text(calls.lower, calls.upper), text(calls.upper, calls.lower)};
}

}  // namespace

const CollectiveDescriptor kAllReduceSparse{CallKind::kAllReduceSparse,
                                            "sparclAllReduceSparse",
                                            false,
                                            choice,
                                            forced_row_name,
                                            nullptr,
                                            options};

}  // namespace sparcl::collectives::sparse_sum
