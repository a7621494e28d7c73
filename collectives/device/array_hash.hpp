#pragma once
// What an array in device memory contributes to the hash of its state, when it is its first.

#include "collectives/device/device_scratch.hpp"
#include "src/base/checksum.hpp"
#include "src/base/data_type.hpp"

namespace sparcl::collectives {

// Enqueues it, with its copy; on_device and pinned: kArrayHashBytes each, aligned to 8 bytes.
constexpr std::size_t kArrayHashBytes = sizeof(kernels::DeviceHash);
Status enqueue_array_hash(const DeviceScratch& scratch, const std::byte* array, std::uint64_t count, DataType type,
                          std::byte* on_device, std::byte* pinned, void* stream);
// Once the copy has come.
Hash128 array_hash_in(const std::byte* pinned);

}  // namespace sparcl::collectives
