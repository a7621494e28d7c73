#pragma once
// What is large enough, in arrays in device memory: elements, and changes. Each call is as those of
// device_kernels.hpp.

#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::kernels::cuda {

struct TakeLarge {
  const void* values;
  void* residual =
      nullptr;  // accumulators (kernels/accumulate.hpp), on return acc; nullptr: no error feedback
  std::uint64_t count = 0;
  std::uint64_t least = 1;  // the magnitude key (kernels/select.hpp) of the least that is taken; 0
                            // is 1: zeros never are
  bool clear_sent = false;  // what is taken leaves the residual
  std::uint64_t capacity = 0;  // so many are taken, those with the lowest indices
  std::uint64_t* indices;      // ascending
  void* taken = nullptr;       // their accumulators; nullptr: none wanted
  std::uint64_t*
      found;  // one number: how many are large enough, also where there is no room for them
};

// The key of the least |acc| that is `threshold` >= 0 or more; NaN: of NaN alone. Of the types that
// have accumulators.
std::uint64_t min_key(DataType type, double threshold);

std::size_t take_large_workspace_bytes(std::uint64_t count);

// All elements of acc whose key is `least` or more, in one pass: NaN > infinity > finite, as
// top_k() orders them.
Status take_large(const TakeLarge& call, DataType type, const Workspace& workspace,
                  cudaStream_t stream);

// diff(), but of the changes those alone that are larger than a threshold >= 0, by the rule of
// codec::ThresholdRule: |new - old| of both as float64; one that involves a NaN is, one between +0
// and -0 is not. The workspace is diff's.
Status diff_large(const void* base, const void* target, std::uint64_t count, DataType type,
                  double threshold, const DeviceChanges& changes, std::uint64_t capacity,
                  const Workspace& workspace, cudaStream_t stream);

}  // namespace sparcl::kernels::cuda
