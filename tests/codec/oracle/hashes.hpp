#pragma once
// The checks of docs/wire-format.md, written down as they stand there.

#include <span>

#include "tests/codec/oracle/oracle.hpp"

namespace sparcl::oracle {

// CRC32C, a byte at a time. Goes on from `crc`; 0 begins.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc);

std::uint64_t h64(std::span<const std::byte> bytes, std::uint64_t seed);
Hash h128(std::span<const std::byte> bytes, std::uint64_t seed);
Hash operator+(Hash a, Hash b);  // modulo 2^128

}  // namespace sparcl::oracle
