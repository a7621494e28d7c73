#pragma once
// The contribution of arrays in device memory to the hash of their state, for all arrays of the
// map.

#include <span>

#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"
#include "src/device/device_scratch.hpp"

namespace sparcl::device {

// Enqueues the hash and the copy of its result; on_device and pinned: kArrayHashBytes each, aligned
// to 8 bytes.
constexpr std::size_t kArrayHashBytes = sizeof(kernels::DeviceHash);
Status enqueue_array_hash(const DeviceScratch& scratch, const codec::BlockMap& map,
                          std::span<const std::byte* const> arrays, std::byte* on_device,
                          std::byte* pinned, void* stream);
// Call after the copy is done.
Hash128 array_hash_in(const std::byte* pinned);

}  // namespace sparcl::device
