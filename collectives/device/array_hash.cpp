#include "collectives/device/array_hash.hpp"

namespace sparcl::collectives {

Status enqueue_array_hash(const DeviceScratch& scratch, const std::byte* array, std::uint64_t count, DataType type,
                          std::byte* on_device, std::byte* pinned, void* stream) {
  auto* const total = reinterpret_cast<kernels::DeviceHash*>(on_device);
  SPARCL_RETURN_IF_ERROR(enqueue_zeros(total, sizeof *total, stream));
  SPARCL_RETURN_IF_ERROR(
      scratch.kernels().blocks.hash(array, count, element_bytes(type), kernels::HashPlace{}, total, nullptr, stream));
  return enqueue_copy(pinned, total, sizeof *total, stream);
}

Hash128 array_hash_in(const std::byte* pinned) {
  const auto& total = *reinterpret_cast<const kernels::DeviceHash*>(pinned);
  return {total.low, total.high};
}

}  // namespace sparcl::collectives
