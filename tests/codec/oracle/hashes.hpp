#pragma once
// The checks of docs/wire-format.md, written down as they stand there.

#include <span>

#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::oracle {

// CRC32C, a byte at a time. Goes on from `crc`; 0 begins.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc);

std::uint64_t h64(std::span<const std::byte> bytes, std::uint64_t seed);
Hash operator+(Hash a, Hash b);  // word by word

// What one element counts in the sums H_0 (low) and H_1 (high): of `bytes` bytes, at a position in block b.
Hash element_sums(std::uint64_t value, unsigned bytes, std::uint64_t position, std::uint64_t b);
std::uint64_t high_halves(const Hash& sums);

}  // namespace sparcl::oracle
