#pragma once
// The least that a sparse broadcast has to do on this machine, measured: the root reads two arrays,
// each replica reads and writes the lines that change.

#include <cstdint>
#include <span>

namespace bench {

// Reads both arrays once, as fast as one core can; the result keeps the reads from being removed.
std::uint64_t read_two_arrays(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b);

// Writes each named element, prefetching ahead: only their lines move.
void touch_changed(std::span<std::uint16_t> weights, std::span<const std::uint64_t> changed);

// What a dense broadcast on one machine cannot save if it keeps the way back: the root copies its
// array through memory that stays in the cache; each other rank copies the held values to a log,
// and such memory over them.
void pass_dense(bool is_root, std::span<std::uint16_t> weights, std::span<std::uint16_t> log);

}  // namespace bench
