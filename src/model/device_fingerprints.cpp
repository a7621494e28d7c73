#include "src/model/device_fingerprints.hpp"

#include <cstring>

namespace sparcl::model {
namespace {

// Adds the arrays of one GPU.
Status add_of_context(const codec::BlockMap& map, std::span<std::byte* const> arrays,
                      const DeviceTensorSource& source, const kernels::DeviceKernelSet& kernels,
                      void* context, void* stream, std::vector<Hash128>& hashes) {
  std::vector<kernels::DeviceHash> totals(arrays.size());
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceBuffer memory,
                          gpu::DeviceBuffer::allocate(context, totals.size() * sizeof totals[0]));
  auto* const on_device = static_cast<kernels::DeviceHash*>(memory.data());
  const gpu::DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  const auto enqueue = [&]() -> Status {
    SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(on_device, memory.size_bytes(), stream));
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (arrays[i] == nullptr || source.context(i) != context) continue;
      const codec::ArraySpec& spec = map.arrays()[i];
      SPARCL_RETURN_IF_ERROR(kernels.blocks.hash(
          arrays[i], spec.count, element_bytes(spec.datatype), {}, on_device + i, nullptr, stream));
    }
    return gpu::enqueue_copy(totals.data(), on_device, memory.size_bytes(), stream);
  };
  const Status enqueued = enqueue(),
               waited = gpu::wait_for(stream);  // the memory is in use until then
  SPARCL_RETURN_IF_ERROR(enqueued);
  SPARCL_RETURN_IF_ERROR(waited);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i] != nullptr && source.context(i) == context)
      hashes[i] = {totals[i].low, totals[i].high};
  }
  return {};
}

}  // namespace

Result<std::vector<Hash128>> device_fingerprints(const codec::BlockMap& map,
                                                 std::span<std::byte* const> arrays,
                                                 const DeviceTensorSource& source,
                                                 const kernels::DeviceKernelSet& kernels,
                                                 void* stream) {
  std::vector<Hash128> hashes(arrays.size());
  for (void* const context : source.contexts()) {
    SPARCL_RETURN_IF_ERROR(add_of_context(map, arrays, source, kernels, context, stream, hashes));
  }
  return hashes;
}

}  // namespace sparcl::model
