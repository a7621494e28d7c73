#pragma once
// Selection of large elements and large changes in arrays in device memory. Each call follows the
// rules of device_kernels.hpp.

#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::kernels::cuda {

struct TakeLarge {
  const void* values;
  void* residual =
      nullptr;  // accumulators (kernels/accumulate.hpp), on return acc; nullptr: no error feedback
  std::uint64_t count = 0;
  std::uint64_t least = 1;  // the magnitude key (kernels/select.hpp) of the least that is taken; 0
                            // is 1: zeros never are
  bool clear_sent = false;  // taken elements leave the residual
  std::uint64_t capacity = 0;  // at most this many are taken, with the lowest indices
  std::uint64_t* indices;      // ascending
  void* taken = nullptr;       // their accumulators; nullptr: none wanted
  std::uint64_t* found;        // one number: the large elements, even if there is no room for them
};

// The smallest magnitude key of an |acc| >= `threshold`, which is at least 0. If threshold is NaN,
// the key of NaN. Only for types that have accumulators.
std::uint64_t min_key(DataType type, double threshold);

std::size_t take_large_workspace_bytes(std::uint64_t count);

// Takes all elements of acc whose key is at least `least`, in one pass: NaN > infinity > finite, as
// top_k() orders them.
Status take_large(const TakeLarge& call, DataType type, const Workspace& workspace,
                  cudaStream_t stream);

// As diff(), but only changes larger than a threshold >= 0, by the rule of codec::ThresholdRule:
// new - old| of both as float64. A change that involves a NaN counts; a change between +0 and -0
// does not. The workspace is diff's.
Status diff_large(const void* base, const void* target, std::uint64_t count, DataType type,
                  double threshold, const DeviceChanges& changes, std::uint64_t capacity,
                  const Workspace& workspace, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
