#pragma once
// Which way calls on arrays in device memory go: between GPUs, selecting there, or by way of the
// host.

#include <memory>

#include "src/api/comm.hpp"
#include "src/api/state_handle.hpp"
#include "src/base/data_type.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/change_finder.hpp"

namespace sparcl::api {

// What a blocking top-k call on these arrays takes of their GPU, entered for it; nullptr: it goes
// by way of the host. Both arrays are in device memory of one GPU, on which this build's kernels
// run, so is the stream, and the kernels take the type. uses_kernels: by the call's options.
device::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive,
                                         DataType type, void* stream, bool uses_kernels);

// The same of a blocking masked all-reduce by way of the host: the mask's values alone, of so many
// bytes, are to cross.
device::DeviceScratch* scratch_for_masked(sparclComm& comm, const void* send, const void* receive,
                                          DataType type, std::size_t bytes, void* stream);

// The same of a blocking broadcast of what changes in an array; base: nullptr, or the root's.
device::DeviceScratch* scratch_for_delta(sparclComm& comm, const void* weights, const void* base,
                                         const codec::ArraySpec& array, bool is_root, void* stream);

// The same of a blocking update of a state, all of whose tensors are on one GPU; of a root without
// a rule, lossy values and what it is to adopt.
device::DeviceScratch* scratch_for_update(sparclComm& comm, const sparclState& state,
                                          collectives::broadcast::UpdateRole role, void* stream);

// Of a state that is published, all of whose tensors are on one GPU; nullptr: they are not, or
// kernels do not run there.
std::unique_ptr<codec::ChangeFinder> change_finder_for(const sparclState& state);

// Before a call waits for its stream as the driver does, which is for good: until the stream is
// through with what it holds, as long as for a peer. array: in device memory.
Status await_stream(sparclComm& comm, const void* array, sparclStream_t stream);

// Of a comm that uses NCCL: both arrays are in device memory; and in that of its GPU.
bool are_on_gpus(const sparclComm& comm, const void* send, const void* receive);
bool are_aligned(const void* send, const void* receive, DataType type);  // to their elements
Status check_gpu(const sparclComm& comm, const void* send, const void* receive);

}  // namespace sparcl::api
