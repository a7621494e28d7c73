#pragma once
// All-reduce of the elements in a mask (sparclAllReduceMasked).

#include "collectives/dense/dense.hpp"
#include "src/base/status.hpp"
#include "src/sparse/mask/mask.hpp"
#include "src/sparse/mask/mask_device.hpp"
#include "src/sparse/selection/feedback.hpp"

namespace sparcl::device {
class DeviceScratch;
}

namespace sparcl::collectives::masked {

extern const CollectiveDescriptor kAllReduceMasked;

// sparclAllReduceMasked. The mask may be redrawn after the call.
struct MaskedCall {
  Status refusal;  // of the caller's arguments on this rank
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;  // may be `send`
  DataType datatype = DataType::kFloat32;
  sparse::Reduction reduction;
  const sparse::Mask* mask = nullptr;
  sparse::DeviceMasks* device_masks = nullptr;  // not nullptr: both arrays are in device memory
  void* stream = nullptr;                       // then: the stream of the call
  device::DeviceScratch* scratch = nullptr;  // then, of the GPU that it has entered: the host sums;
                                             // nullptr: the GPUs sum among each other
  bool clears_outside = false;               // +0 in `receive` outside the mask
  bool is_canonical = false;  // for sums between GPUs: they have the bits of the host path
  std::byte* packed =
      nullptr;  // not nullptr: the mask's values, in and out; the arrays are ignored
  sparse::Feedback* feedback =
      nullptr;  // for sums and means: acc is summed, and the rest stays in the residual
};
Task all_reduce_masked(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                       CallReport& report);

// The terms that every masked call agrees on, and its report; `sketch` outlives the agreement.
CallTerms masked_terms(const MaskedCall& call, std::uint8_t algorithm, sparse::MaskSketch& sketch);
void report_sum(const MaskedCall& call, int ranks, CallReport& report);
// For arrays in device memory (masked_nccl.cpp between GPUs; masked_device.cpp for a sum on the
// host).
Task all_reduce_masked_nccl(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                            CallReport& report);
Task all_reduce_masked_device(const CommContext& comm, std::uint32_t number, const MaskedCall& call,
                              CallReport& report);

}  // namespace sparcl::collectives::masked
