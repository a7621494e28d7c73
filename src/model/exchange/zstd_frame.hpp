#pragma once
// One zstd frame, as other programs wrap the bytes of one tensor.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::model {

Result<std::vector<std::byte>> pack_frame(std::span<const std::byte> bytes, int level);

// Hostile bytes: the frame must name its content's size, which is compared with the two limits
// before memory is taken, and nothing may follow it (Corrupt).
Result<std::vector<std::byte>> unpack_frame(std::span<const std::byte> frame,
                                            std::uint64_t min_bytes, std::uint64_t max_bytes);

// A frame of old XOR new, as hf-xor, arc2 and SkyRL have it. The bytes: old ones before, new ones
// afterwards.
Status unpack_xor(std::span<const std::byte> frame, std::span<std::byte> bytes);
Result<std::vector<std::byte>> pack_xor(std::vector<std::byte> old_bytes,
                                        std::span<const std::byte> new_bytes, int level);

}  // namespace sparcl::model
