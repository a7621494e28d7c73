#include <fmt/format.h>

#include "collectives/dense/dense.hpp"
#include "collectives/masked/masked.hpp"

namespace sparcl::collectives::masked {
namespace {

bool is_canonical_between_gpus(const CallFingerprint& call) {
  return call.algorithm >= comm::kCanonicalOnDevice && call.algorithm != comm::kDeviceAlgorithm;
}
bool is_between_gpus(const CallFingerprint& call) {
  return call.algorithm == comm::kDeviceAlgorithm || is_canonical_between_gpus(call);
}

const comm::AlgorithmChoice& choice(std::uint8_t) { return dense::kDenseAlgorithms; }

std::string_view algorithm(std::uint8_t row) {
  const bool is_canonical = row >= comm::kCanonicalOnDevice && row != comm::kDeviceAlgorithm;
  return dense::forced_dense_name(
      is_canonical ? static_cast<std::uint8_t>(row - comm::kCanonicalOnDevice) : row);
}

CallDifference masks(const CallPair& calls) {
  const sparse::MaskSketch lower = sparse::mask_sketch_in(calls.lower_sketch),
                           upper = sparse::mask_sketch_in(calls.upper_sketch);
  const std::string in = what_differs(lower, upper);
  return {in.empty() ? "masks" : fmt::format("masks ({})", in),
          fmt::format(", mask: {}", describe(lower)), fmt::format(", mask: {}", describe(upper))};
}

std::string location(const CallFingerprint& call, const CallFingerprint& other) {
  std::string where = comm::location_text(is_between_gpus(call), is_between_gpus(other));
  if (where.empty() && is_canonical_between_gpus(call) != is_canonical_between_gpus(other))
    where = is_canonical_between_gpus(call) ? ", canonical sums" : ", sums in NCCL's order";
  return where;
}

}  // namespace

static_assert(sizeof(sparse::MaskSketch) <= comm::kSketchBytes);

const CollectiveDescriptor kAllReduceMasked{CallKind::kAllReduceMasked,
                                            "sparclAllReduceMasked",
                                            false,
                                            choice,
                                            algorithm,
                                            nullptr,
                                            masks,
                                            location};

}  // namespace sparcl::collectives::masked
