#include "src/api/device_way.hpp"

#include <fmt/format.h>

#include "src/api/device_kernel_choice.hpp"
#include "src/base/device_memory.hpp"
#include "src/base/device_stream.hpp"

namespace sparcl::api {

namespace {

// Kept for the next call, on the GPU and pinned here: values of larger masks cross with their arrays.
constexpr std::size_t kMostMaskedBytes = std::size_t{256} << 20;

// Memory of pools has no context of its own: the thread's is then taken, which may be another GPU's.
bool is_gpu_of(void* context, const void* one, const void* other) {
  const DeviceScope inside(context);
  if (!inside.status().ok()) return false;
  const Result<int> gpu = current_device(), its_gpu = device_of(one), other_gpu = device_of(other);
  return gpu.ok() && its_gpu.ok() && other_gpu.ok() && *gpu == *its_gpu && *gpu == *other_gpu;
}

// Entered for the GPU that both arrays and the stream are on; nullptr: there is none, or kernels do not run there. (A stream of
// another one takes copies, but no kernels.)
collectives::DeviceScratch* scratch_for(sparclComm& comm, const void* one, const void* other, void* stream) {
  if (!comm.uses_device_kernels || space_of(one) != MemorySpace::kDevice || space_of(other) != MemorySpace::kDevice || !can_stage())
    return nullptr;
  if (comm.device_scratch == nullptr) {
    const Result<const kernels::DeviceKernelSet*> kernels = device_kernels();
    if (!kernels.ok()) return nullptr;
    comm.device_scratch = std::make_unique<collectives::DeviceScratch>(**kernels);
  }
  const Result<void*> context = context_of(one), its_context = context_of(other), stream_context = context_for(one, stream);
  if (!context.ok() || !its_context.ok() || !stream_context.ok()) return nullptr;
  if (*context != *its_context || *context != *stream_context || !is_gpu_of(*context, one, other)) return nullptr;
  return comm.device_scratch->enter(*context).ok() ? comm.device_scratch.get() : nullptr;
}

bool is_aligned(const void* array, DataType type) { return reinterpret_cast<std::uintptr_t>(array) % element_bytes(type) == 0; }

// The stream is not being captured: the host's way has the error for that.
bool is_open(const collectives::DeviceScratch& scratch, void* stream) {
  const DeviceScope inside(scratch.context());
  if (!inside.status().ok()) return false;
  const Result<bool> captured = is_capturing(stream);
  return captured.ok() && !*captured;
}

}  // namespace

collectives::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive, DataType type,
                                              void* stream) {
  collectives::DeviceScratch* const scratch = scratch_for(comm, send, receive, stream);
  return scratch != nullptr && scratch->kernels().top_k.supports(type) ? scratch : nullptr;
}

collectives::DeviceScratch* scratch_for_masked(sparclComm& comm, const void* send, const void* receive, DataType type,
                                               std::size_t bytes, void* stream) {
  if (bytes > kMostMaskedBytes || !is_aligned(send, type) || !is_aligned(receive, type)) return nullptr;
  collectives::DeviceScratch* const scratch = scratch_for(comm, send, receive, stream);
  if (scratch == nullptr || !is_open(*scratch, stream)) return nullptr;
  return scratch->both(bytes, bytes, "a mask's values").ok() ? scratch : nullptr;
}

collectives::DeviceScratch* scratch_for_delta(sparclComm& comm, const void* weights, const void* base,
                                              const codec::ArraySpec& array, bool is_root, void* stream) {
  using collectives::UpdateRole;
  const UpdateRole role = !is_root ? UpdateRole::kReceives : base == nullptr ? UpdateRole::kSendsAll : UpdateRole::kSendsChanges;
  const void* const other = role == UpdateRole::kSendsChanges ? base : weights;
  if (array.count == 0 || !is_aligned(weights, array.datatype) || !is_aligned(other, array.datatype)) return nullptr;
  collectives::DeviceScratch* const scratch = scratch_for(comm, weights, other, stream);
  if (scratch == nullptr || !is_open(*scratch, stream)) return nullptr;
  return collectives::reserve_for_update(*scratch, *comm.context.kernels, codec::BlockMap(std::span(&array, 1)), role).ok()
             ? scratch
             : nullptr;
}

bool are_on_gpus(const sparclComm& comm, const void* send, const void* receive) {
  return comm.device != nullptr && space_of(send) == MemorySpace::kDevice && space_of(receive) == MemorySpace::kDevice;
}

Status check_gpu(const sparclComm& comm, const void* send, const void* receive) {
  for (const auto& [name, array] : {std::pair("sendbuff", send), std::pair("recvbuff", receive)}) {
    const Result<int> device = device_of(array);
    if (!device.ok()) return device.status().with_prefix(std::string(name) + ": ");
    if (*device != comm.device->gpu()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is in the memory of GPU {}, this communicator's is GPU {}", name, *device, comm.device->gpu()));
    }
  }
  return Status();
}

}  // namespace sparcl::api
