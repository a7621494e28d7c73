#pragma once
// The checks of docs/reference/wire-format.md, written down as they stand there.

#include <span>

#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::oracle {

// CRC32C, a byte at a time. Goes on from `crc`; 0 begins.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc);

std::uint64_t h64(std::span<const std::byte> bytes, std::uint64_t seed);

// H_0 (low) and H_1 (high) of elements: `values` at `positions` of block `index`, all else 0.
Hash element_sums(std::uint64_t index, unsigned element_bytes,
                  std::span<const std::uint64_t> positions, std::span<const std::uint64_t> values);

Hash operator+(Hash a, Hash b);  // word by word
std::uint64_t high(Hash sums);

}  // namespace sparcl::oracle
