#pragma once
// float32 as 8-bit integers with scales that are powers of two, without loss: for values that were
// rounded so (selection/scaled_values.hpp), wherever their groups begin. The layout of the pieces:
// part_code.hpp.

#include <cstddef>
#include <span>
#include <vector>

namespace sparcl::sparse {

constexpr int kScaledBits = 7;  // of magnitudes

// Appends `count` float32 (any alignment) as pieces. False if these take as many bytes as the
// values; `out` is then unchanged.
bool append_scaled(const std::byte* values, std::size_t count, std::vector<std::byte>& out);

// Reads all pieces of untrusted bytes: `count` float32. False if the bytes are not that.
bool read_scaled(std::span<const std::byte> pieces, std::size_t count, std::byte* values);

}  // namespace sparcl::sparse
