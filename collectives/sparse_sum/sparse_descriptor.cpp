#include <fmt/format.h>

#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {
namespace {

const comm::AlgorithmChoice& choice(std::uint8_t) { return kSparseSumAlgorithms; }

CallDifference options(const CallPair& calls) {
  const auto text = [](const CallFingerprint& call) {
    return fmt::format(", determinism {}", determinism_name(static_cast<Determinism>(call.detail)));
  };
  return {"options", text(calls.lower), text(calls.upper)};
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
