#pragma once
// Checksums by libraries: CRC32C (RFC 3720, by ISA-L) for bytes on a wire, XXH3 (by xxHash) for
// states, Adler-32 (RFC 1950, by ISA-L) for the layouts of other programs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sparcl {

// Continues from `crc`, the value for the bytes before; 0 begins.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t crc = 0);

std::uint32_t adler32(std::span<const std::byte> bytes);

std::uint64_t xxh3_64(std::span<const std::byte> bytes, std::uint64_t seed = 0);

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

Hash128 xxh3_128(std::span<const std::byte> bytes, std::uint64_t seed = 0);

// XXH3-128 with seed 0 of bytes that come in parts.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> bytes);
  Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Adds the two words, modulo 2^64 each. A sum of the hashes of parts does not depend on the order
// in which parts are visited.
constexpr Hash128 operator+(Hash128 a, Hash128 b) { return {a.low + b.low, a.high + b.high}; }
constexpr Hash128 operator-(Hash128 a, Hash128 b) { return {a.low - b.low, a.high - b.high}; }

std::array<std::uint8_t, 16> to_bytes(const Hash128& hash);  // little endian, low word first
std::string to_hex(const Hash128& hash);                     // these bytes, 32 digits

}  // namespace sparcl
