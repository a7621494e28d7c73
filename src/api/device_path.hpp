#pragma once
// The path of calls on arrays in device memory: between GPUs, with selection on the GPU, or staged
// through host memory.

#include <memory>

#include "src/api/comm.hpp"
#include "src/api/state_handle.hpp"
#include "src/base/data_type.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/change_finder.hpp"

namespace sparcl::api {

// The GPU scratch memory of a blocking top-k call on these arrays, entered for it; nullptr: host
// path. Both arrays and the stream must be on one GPU, on which this build's kernels run, and the
// kernels must take the type. uses_kernels: by the call's options.
device::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive,
                                         DataType type, void* stream, bool uses_kernels);

// The same for a blocking masked all-reduce staged through host memory, of which only the mask's
// values, `bytes` long, are to cross.
device::DeviceScratch* scratch_for_masked(sparclComm& comm, const void* send, const void* receive,
                                          DataType type, std::size_t bytes, void* stream);

// The same for a blocking broadcast of the changes of an array. base: nullptr, or the root's.
device::DeviceScratch* scratch_for_delta(sparclComm& comm, const void* weights, const void* base,
                                         const codec::ArraySpec& array, bool is_root, void* stream);

// The same for a blocking update of a state, if all its tensors are on one GPU. A root must have no
// rule, no lossy values and nothing to adopt.
device::DeviceScratch* scratch_for_update(sparclComm& comm, const sparclState& state,
                                          collectives::broadcast::UpdateRole role, void* stream);

// For a state that is published. nullptr: its tensors are not all on one GPU, or kernels do not run
// there.
std::unique_ptr<codec::ChangeFinder> change_finder_for(const sparclState& state);

// Waits until the stream is idle, as long as for a peer. To be called before a call waits for its
// stream by the driver, which has no timeout. array: in device memory.
Status await_stream(sparclComm& comm, const void* array, sparclStream_t stream);

// For a comm that uses NCCL: both arrays are in device memory.
bool are_on_gpus(const sparclComm& comm, const void* send, const void* receive);
bool are_aligned(const void* send, const void* receive, DataType type);  // to their elements
// Both arrays are in the memory of the comm's GPU.
Status check_gpu(const sparclComm& comm, const void* send, const void* receive);

}  // namespace sparcl::api
