#pragma once
// What memory allows: the limits that the codec's speeds are held against, measured in the same
// rounds.

#include <cstddef>
#include <cstdint>

namespace sparcl::bench {

// Reads all of one array, or of two; only loads matter. The results keep the compiler from leaving
// the work out.
std::uint64_t read_one(const std::byte* a, std::size_t bytes);
std::uint64_t read_two(const std::byte* a, const std::byte* b, std::size_t bytes);

// Bytes of the lines of 64 that differ: what an in-place apply must at least bring from memory, and
// write back.
std::uint64_t touched_bytes(const std::byte* base, const std::byte* target, std::size_t bytes);

}  // namespace sparcl::bench
