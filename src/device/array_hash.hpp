#pragma once
// What arrays in device memory contribute to the hash of their state: all of them, as the map has
// them.

#include <span>

#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"
#include "src/device/device_scratch.hpp"

namespace sparcl::device {

// Enqueues it, with its copy; on_device and pinned: kArrayHashBytes each, aligned to 8 bytes.
constexpr std::size_t kArrayHashBytes = sizeof(kernels::DeviceHash);
Status enqueue_array_hash(const DeviceScratch& scratch, const codec::BlockMap& map,
                          std::span<const std::byte* const> arrays, std::byte* on_device,
                          std::byte* pinned, void* stream);
// Once the copy has come.
Hash128 array_hash_in(const std::byte* pinned);

}  // namespace sparcl::device
