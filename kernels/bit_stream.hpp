#pragma once
// A string of bits, low bit of each byte first, as all bodies read and write it.

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sparcl::kernels {

// Appends bits. It stores whole groups of eight bytes, so nothing is ever read back (no
// store-forwarding stalls).
struct BitWriter {
  std::byte* at;
  std::uint64_t pending = 0;
  unsigned pending_bits = 0;  // < 64

  // count <= 64; the bits of `bits` above count must be zero.
  void put(std::uint64_t bits, unsigned count) {
    pending |= bits << pending_bits;
    const unsigned filled = pending_bits + count;
    if (filled < 64) {
      pending_bits = filled;
      return;
    }
    std::memcpy(at, &pending, 8);
    at += 8;
    pending = pending_bits == 0 ? 0 : bits >> (64 - pending_bits);
    pending_bits = filled - 64;
  }

  // Pads with zero bits to a byte and returns the end. Writes no byte beyond it.
  std::byte* finish() {
    const unsigned bytes = (pending_bits + 7) / 8;
    std::memcpy(at, &pending, bytes);
    return at + bytes;
  }
};

// Bits that readers may load, but not use, after the last bit of a string: its buffer needs this
// many bytes more.
constexpr std::size_t kBitSlackBytes = 16;

// The 64 bits from `bit` on; reads nine bytes.
inline std::uint64_t load_bits(const std::byte* bytes, std::uint64_t bit) {
  std::uint64_t low;
  std::memcpy(&low, bytes + bit / 8, 8);
  const auto shift = static_cast<unsigned>(bit % 8);
  const auto high = static_cast<std::uint64_t>(bytes[bit / 8 + 8]);
  return shift == 0 ? low : (low >> shift) | (high << (64 - shift));
}

inline std::uint64_t low_bits(std::uint64_t bits, std::uint64_t count) {
  return count >= 64 ? bits : bits & ((std::uint64_t{1} << count) - 1);
}

}  // namespace sparcl::kernels
