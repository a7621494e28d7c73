#include "src/api/device_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "src/api/device_kernel_choice.hpp"
#include "src/comm/device/device_patience.hpp"
#include "src/device/device_change_finder.hpp"
#include "src/gpu/device_memory.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::api {

namespace {

// Kept for the next call, on the GPU and pinned here: values of larger masks cross with their
// arrays.
constexpr std::size_t kMaxMaskedBytes = std::size_t{256} << 20;

// Memory of pools has no context of its own: the thread's is then taken, which may be another
// GPU's.
bool is_gpu_of(void* context, std::span<const void* const> arrays) {
  const gpu::DeviceScope inside(context);
  if (!inside.status().ok()) return false;
  const Result<int> gpu = gpu::current_device();
  return gpu.ok() && std::ranges::all_of(arrays, [&](const void* array) {
           const Result<int> its_gpu = gpu::device_of(array);
           const Result<void*> its_context = gpu::context_of(array);
           return its_gpu.ok() && its_context.ok() && *its_gpu == *gpu && *its_context == context;
         });
}

bool is_on_device(const void* array) { return gpu::space_of(array) == MemorySpace::kDevice; }

// Entered for the GPU that the arrays, one at least, and the stream are on; nullptr: there is none,
// or kernels do not run there. (A stream of another one takes copies, but no kernels.)
device::DeviceScratch* scratch_for(sparclComm& comm, std::span<const void* const> arrays,
                                   void* stream, bool uses_kernels) {
  if (!uses_kernels || !std::ranges::all_of(arrays, is_on_device) || !gpu::can_stage())
    return nullptr;
  if (comm.device_scratch == nullptr) {
    const Result<const kernels::DeviceKernelSet*> kernels = device_kernels();
    if (!kernels.ok()) return nullptr;
    comm.device_scratch = std::make_unique<device::DeviceScratch>(**kernels);
  }
  const Result<void*> context = gpu::context_of(arrays[0]),
                      stream_context = gpu::context_for(arrays[0], stream);
  if (!context.ok() || !stream_context.ok() || *context != *stream_context ||
      !is_gpu_of(*context, arrays))
    return nullptr;
  return comm.device_scratch->enter(*context).ok() ? comm.device_scratch.get() : nullptr;
}

bool is_aligned(const void* array, DataType type) {
  return reinterpret_cast<std::uintptr_t>(array) % element_bytes(type) == 0;
}

// The stream is not being captured: the host path reports the error of a captured stream.
bool is_open(const device::DeviceScratch& scratch, void* stream) {
  const gpu::DeviceScope inside(scratch.context());
  if (!inside.status().ok()) return false;
  const Result<bool> captured = gpu::is_capturing(stream);
  return captured.ok() && !*captured;
}

// The tensors that have elements, or their masters. Empty: one of them is not on the device, or not
// aligned to its elements.
std::vector<const void*> tensors_on_device(const sparclState& state) {
  std::vector<const void*> tensors;
  for (std::size_t i = 0; i < state.data.size(); ++i) {
    const codec::ArraySpec& array = state.map->arrays()[i];
    if (array.count == 0) continue;
    const bool is_master = state.data[i] == nullptr;
    tensors.push_back(is_master ? static_cast<const void*>(state.masters[i]) : state.data[i]);
    const DataType lies_as = is_master ? DataType::kFloat32 : array.datatype;
    if (state.spaces[i] != MemorySpace::kDevice || !is_aligned(tensors.back(), lies_as)) return {};
  }
  return tensors;
}

// With the memory to code, or to check and write, the blocks of the arrays.
device::DeviceScratch* scratch_for_blocks(sparclComm& comm, std::span<const void* const> arrays,
                                          const codec::BlockMap& map,
                                          collectives::broadcast::UpdateRole role, void* stream) {
  device::DeviceScratch* const scratch =
      scratch_for(comm, arrays, stream, comm.uses_device_kernels);
  if (scratch == nullptr || !is_open(*scratch, stream)) return nullptr;
  return collectives::broadcast::reserve_for_update(*scratch, *comm.context.kernels, map, role,
                                                    comm.context.device_classes)
                 .ok()
             ? scratch
             : nullptr;
}

}  // namespace

device::DeviceScratch* scratch_for_top_k(sparclComm& comm, const void* send, const void* receive,
                                         DataType type, void* stream, bool uses_kernels) {
  device::DeviceScratch* const scratch =
      scratch_for(comm, std::array{send, receive}, stream, uses_kernels);
  return scratch != nullptr && scratch->kernels().top_k.supports(type) ? scratch : nullptr;
}

device::DeviceScratch* scratch_for_masked(sparclComm& comm, const void* send, const void* receive,
                                          DataType type, std::size_t bytes, void* stream) {
  if (bytes > kMaxMaskedBytes || !is_aligned(send, type) || !is_aligned(receive, type))
    return nullptr;
  device::DeviceScratch* const scratch =
      scratch_for(comm, std::array{send, receive}, stream, comm.uses_device_kernels);
  if (scratch == nullptr || !is_open(*scratch, stream)) return nullptr;
  return scratch->both(bytes, bytes, "a mask's values").ok() ? scratch : nullptr;
}

device::DeviceScratch* scratch_for_delta(sparclComm& comm, const void* weights, const void* base,
                                         const codec::ArraySpec& array, bool is_root,
                                         void* stream) {
  using collectives::broadcast::UpdateRole;
  const collectives::broadcast::UpdateRole role =
      !is_root          ? collectives::broadcast::UpdateRole::kReceives
      : base == nullptr ? collectives::broadcast::UpdateRole::kSendsAll
                        : collectives::broadcast::UpdateRole::kSendsChanges;
  const void* const other =
      role == collectives::broadcast::UpdateRole::kSendsChanges ? base : weights;
  if (array.count == 0 || !is_aligned(weights, array.datatype) ||
      !is_aligned(other, array.datatype))
    return nullptr;
  return scratch_for_blocks(comm, std::array{weights, other}, codec::BlockMap(std::span(&array, 1)),
                            role, stream);
}

device::DeviceScratch* scratch_for_update(sparclComm& comm, const sparclState& state,
                                          collectives::broadcast::UpdateRole role, void* stream) {
  const std::vector<const void*> tensors = tensors_on_device(state);
  return tensors.empty() ? nullptr : scratch_for_blocks(comm, tensors, *state.map, role, stream);
}

std::unique_ptr<codec::ChangeFinder> change_finder_for(const sparclState& state) {
  const std::vector<const void*> tensors = tensors_on_device(state);
  if (tensors.empty() || !gpu::can_stage()) return nullptr;
  const Result<const kernels::DeviceKernelSet*> kernels = device_kernels();
  const Result<void*> context = gpu::context_of(tensors[0]);
  if (!kernels.ok() || !context.ok() || !is_gpu_of(*context, tensors)) return nullptr;
  auto made = device::DeviceChangeFinder::create(
      **kernels, *state.map, {{state.data.begin(), state.data.end()}, state.masters}, *context);
  return made.ok() ? std::move(*made) : nullptr;
}

// A driver without events, and a stream that is being captured, cause errors in later calls.
Status await_stream(sparclComm& comm, const void* array, sparclStream_t stream) {
  const Result<void*> context = gpu::context_for(array, stream);
  if (!gpu::can_stage() || !context.ok()) return Status();
  const gpu::DeviceScope inside(*context);
  const Result<bool> captured = inside.status().ok() ? gpu::is_capturing(stream) : inside.status();
  if (!captured.ok() || *captured) return Status();
  return comm::await_stream(comm.engine, *context, stream);
}

bool are_on_gpus(const sparclComm& comm, const void* send, const void* receive) {
  return comm.device != nullptr && gpu::space_of(send) == MemorySpace::kDevice &&
         gpu::space_of(receive) == MemorySpace::kDevice;
}

bool are_aligned(const void* send, const void* receive, DataType type) {
  return is_aligned(send, type) && is_aligned(receive, type);
}

Status check_gpu(const sparclComm& comm, const void* send, const void* receive) {
  for (const auto& [name, array] : {std::pair("sendbuff", send), std::pair("recvbuff", receive)}) {
    const Result<int> device = gpu::device_of(array);
    if (!device.ok()) return device.status().with_prefix(std::string(name) + ": ");
    if (*device != comm.device->gpu()) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} is in the memory of GPU {}, this communicator's is GPU {}",
                                name, *device, comm.device->gpu()));
    }
  }
  return Status();
}

}  // namespace sparcl::api
