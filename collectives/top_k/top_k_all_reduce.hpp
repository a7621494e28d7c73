#pragma once
// All-reduce of the largest elements of each rank, with error feedback (sparclAllReduceTopK):
// agree, select, exchange, write.

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "src/sparse/selection/feedback.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::device {
class DeviceScratch;
}

namespace sparcl::collectives::top_k {

extern const CollectiveDescriptor kAllReduceTopK;

// Whose values are summed: at the union of what the ranks selected, of all ranks (kUnion); of those
// that selected the element, at all of these (kSelected), or at the k largest sums (kGlobal).
enum class TopKMode : std::uint8_t { kUnion, kSelected, kGlobal };
// What stays in the residual: what a rank has not sent; or, of floats, acc - the mean at all
// elements of the result (the variant of data-parallel schemes that sum what was decompressed).
enum class TopKResidual : std::uint8_t { kSent, kMean };
// What values are rounded to before they are sent; sums are of what was sent.
enum class TopKWire : std::uint8_t { kSameType, kBfloat16, kScaled8 };

struct TopKCall {
  Status refusal;  // of the caller's arguments on this rank
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;  // may be `send`
  std::uint64_t count = 0;
  std::uint64_t k = 0;
  DataType datatype = DataType::kFloat32;
  bool is_mean = false;
  sparse::Feedback* feedback = nullptr;  // nullptr: the rest is discarded
  TopKMode mode = TopKMode::kUnion;
  TopKWire wire = TopKWire::kSameType;
  TopKResidual kept = TopKResidual::kSent;
  std::vector<sparse::Selection::Part> tensors =
      {};                         // whose largest are selected, each; none: those of the array
  bool reuses_threshold = false;  // of the call before with this feedback, instead of a sample
  Determinism determinism = Determinism::kCanonical;
  std::string algorithm = "auto";  // of the sparse sum; in mode union of the dense one
  bool is_between_gpus = false;    // both arrays are in the memory of the GPU of comm.device
  device::DeviceScratch* device =
      nullptr;  // not nullptr: both arrays are in the memory of the GPU that it was entered for
  void* stream = nullptr;  // then: whose order the call takes its place in
};

// What must be alike on all ranks, in one number, and that number's parts: it may have come over
// the wire, any may stand there.
struct TopKOptions {
  std::uint64_t k = 0;
  std::uint8_t mode = 0;  // a TopKMode, or 3
  std::uint8_t wire = 0;  // a TopKWire, or more
  Determinism determinism = Determinism::kCanonical;
};
std::uint64_t pack_options(const TopKCall& call);
TopKOptions unpack_options(std::uint64_t packed);

// In the fingerprint of a call in mode union the algorithm is the dense sum's that is forced, with
// this bit; else the sparse one's.
constexpr std::uint8_t kDenseChoice = 0x80;

// After the ranks have agreed the residual is written: an error that ends the comm leaves acc in
// it.
Task all_reduce_top_k(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                      CallReport& report);

// The same between the ranks' GPUs, of what takes_gpus() (top_k_stream.hpp): both arrays are in the
// memory of comm.device's, and the call is over when it is enqueued.
Task all_reduce_top_k_nccl(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                           CallReport& report);

}  // namespace sparcl::collectives::top_k
