#include "src/device/array_hash.hpp"

namespace sparcl::device {

Status enqueue_array_hash(const DeviceScratch& scratch, const codec::BlockMap& map,
                          std::span<const std::byte* const> arrays, std::byte* on_device,
                          std::byte* pinned, void* stream) {
  auto* const total = reinterpret_cast<kernels::DeviceHash*>(on_device);
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(total, sizeof *total, stream));
  for (std::uint32_t i = 0; i < arrays.size(); ++i) {
    const codec::ArraySpec& array = map.arrays()[i];
    if (array.count == 0) continue;
    const codec::BlockMap::Place place = map.place_of(i, 0);
    SPARCL_RETURN_IF_ERROR(
        scratch.kernels().blocks.hash(arrays[i], array.count, element_bytes(array.datatype),
                                      {place.block, place.offset}, total, nullptr, stream));
  }
  return gpu::enqueue_copy(pinned, total, sizeof *total, stream);
}

Hash128 array_hash_in(const std::byte* pinned) {
  const auto& total = *reinterpret_cast<const kernels::DeviceHash*>(pinned);
  return {total.low, total.high};
}

}  // namespace sparcl::device
