#pragma once
// The memory limits that the codec's speeds are compared with, measured in the same rounds.

#include <cstddef>
#include <cstdint>

namespace sparcl::bench {

// Reads all of one array, or of two; only loads matter. The results keep the compiler from removing
// the loads.
std::uint64_t read_one(const std::byte* a, std::size_t bytes);
std::uint64_t read_two(const std::byte* a, const std::byte* b, std::size_t bytes);

// Bytes of the 64-byte lines that differ: an in-place apply must at least read them from memory,
// and write them back.
std::uint64_t touched_bytes(const std::byte* base, const std::byte* target, std::size_t bytes);

}  // namespace sparcl::bench
