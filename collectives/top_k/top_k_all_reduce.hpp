#pragma once
// All-reduce of the largest elements of each rank, with error feedback (sparclAllReduceTopK):
// agree, select, exchange, write.

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/collective.hpp"
#include "src/sparse/selection/feedback.hpp"
#include "src/sparse/selection/residual.hpp"
#include "src/sparse/selection/selection.hpp"

namespace sparcl::device {
class DeviceScratch;
}

namespace sparcl::collectives::top_k {

extern const CollectiveDescriptor kAllReduceTopK;

// The values that are summed. kUnion: of all ranks, at the union of the selected elements.
// kSelected: of the ranks that selected the element, at all selected elements. kGlobal: as
// kSelected, at the k largest sums.
enum class TopKMode : std::uint8_t { kUnion, kSelected, kGlobal };
// The rest that stays in the residual. kSent: the values that a rank has not sent. kMean: acc minus
// the mean at all elements of the result, for floats, as in data-parallel schemes that sum
// decompressed values.
enum class TopKResidual : std::uint8_t { kSent, kMean };
using TopKWire = sparse::Wire;

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
      {};                         // the largest are selected in each; none: those of the array
  bool reuses_threshold = false;  // of the last call with this feedback, instead of a sample
  Determinism determinism = Determinism::kCanonical;
  std::string algorithm = "auto";  // of the sparse sum; in mode union of the dense one
  bool is_between_gpus = false;    // both arrays are in the memory of the GPU of comm.device
  device::DeviceScratch* device = nullptr;  // not nullptr: both arrays are in the memory of the GPU
                                            // that scratch was entered for
  void* stream = nullptr;                   // then: the stream of the call
};

// Options that must be equal on all ranks, in one number, and its parts. They may come from the
// wire: any number is possible.
struct TopKOptions {
  std::uint64_t k = 0;
  std::uint8_t mode = 0;  // a TopKMode, or 3
  std::uint8_t wire = 0;  // a TopKWire, or larger
  Determinism determinism = Determinism::kCanonical;
};
std::uint64_t pack_options(const TopKCall& call);
TopKOptions unpack_options(std::uint64_t packed);

// The algorithm in a call's fingerprint: in mode union the forced dense sum, with this bit; else
// the forced sparse sum.
constexpr std::uint8_t kDenseChoice = 0x80;

// The residual is written after the ranks have agreed: an error that poisons the communicator
// leaves acc in it.
Task all_reduce_top_k(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                      CallReport& report);

// The same between the ranks' GPUs, for calls that takes_gpus() accepts (top_k_stream.hpp). Both
// arrays are in the memory of comm.device's GPU, and the call returns when it is enqueued.
Task all_reduce_top_k_nccl(const CommContext& comm, std::uint32_t number, const TopKCall& call,
                           CallReport& report);

}  // namespace sparcl::collectives::top_k
