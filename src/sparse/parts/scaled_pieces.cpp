#include "src/sparse/parts/scaled_pieces.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/base/float_environment.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kHeadBytes = 4;
constexpr std::size_t kMaxValues = 65536;       // of a piece
constexpr int kMantissaBits = 23, kUnit = 150;  // a float is mantissa * 2^(exponent - 150)
constexpr int kUnscaled = 0, kMaxPieceExponent = 254 + kMantissaBits;

struct Digits {  // |value| = mantissa * 2^(exponent - kUnit)
  std::uint32_t mantissa;
  int exponent;
  bool fits;  // 8 bits and a scale hold it

  explicit Digits(std::uint32_t bits)
      : mantissa(bits & 0x7fffff), exponent(static_cast<int>(bits >> kMantissaBits & 0xff)) {
    const bool is_number = exponent != 255;
    if (exponent != 0) mantissa |= 1U << kMantissaBits;
    exponent = std::max(exponent, 1);
    fits = is_number && (mantissa == 0 ? bits == 0 : highest() - lowest() < kScaledBits);
  }
  int lowest() const {
    return exponent + std::countr_zero(mantissa);
  }  // of its bits; of mantissas that are not 0
  int highest() const { return exponent + std::bit_width(mantissa) - 1; }
};

std::uint32_t load_bits(const std::byte* values, std::size_t i) {
  std::uint32_t bits;
  std::memcpy(&bits, values + 4 * i, sizeof bits);
  return bits;
}

struct Piece {
  std::size_t count = 0;
  int exponent = kUnscaled;
};

// The longest piece from `first` on.
Piece next_piece(const std::byte* values, std::size_t first, std::size_t count) {
  const std::size_t end = first + std::min(kMaxValues, count - first);
  std::size_t i = first;
  while (i < end && !Digits(load_bits(values, i)).fits) ++i;
  if (i > first) return {i - first, kUnscaled};
  int lowest = kMaxPieceExponent, highest = 0;
  for (; i < end; ++i) {
    const Digits digits(load_bits(values, i));
    if (!digits.fits) break;
    if (digits.mantissa == 0) continue;
    const int low = std::min(lowest, digits.lowest()), high = std::max(highest, digits.highest());
    if (high - low >= kScaledBits) break;
    lowest = low;
    highest = high;
  }
  return {i - first, std::min(lowest, kMaxPieceExponent)};
}

}  // namespace

bool append_scaled(const std::byte* values, std::size_t count, std::vector<std::byte>& out) {
  const std::size_t before = out.size(), most = before + 4 * count;
  for (std::size_t at = 0; at < count;) {
    const Piece piece = next_piece(values, at, count);
    const std::size_t bytes = piece.count * (piece.exponent == kUnscaled ? 4 : 1);
    const std::size_t to = out.size();
    if (to + kHeadBytes + bytes >= most) {
      out.resize(before);
      return false;
    }
    out.resize(to + kHeadBytes + bytes);
    store_le<std::uint16_t>(out.data() + to, static_cast<std::uint16_t>(piece.count - 1));
    store_le<std::uint16_t>(out.data() + to + 2, static_cast<std::uint16_t>(piece.exponent));
    std::byte* const digits = out.data() + to + kHeadBytes;
    if (piece.exponent == kUnscaled) {
      std::memcpy(digits, values + 4 * at, bytes);
    } else {
      for (std::size_t i = 0; i < piece.count; ++i) {
        const std::uint32_t bits = load_bits(values, at + i);
        const Digits own(bits);
        const int shift = piece.exponent - own.exponent;
        const auto magnitude = static_cast<int>(own.mantissa == 0 ? 0
                                                : shift >= 0      ? own.mantissa >> shift
                                                                  : own.mantissa << -shift);
        digits[i] = static_cast<std::byte>(bits >> 31 != 0 ? -magnitude : magnitude);
      }
    }
    at += piece.count;
  }
  return true;
}

bool read_scaled(std::span<const std::byte> pieces, std::size_t count, std::byte* values) {
  const FloatEnvironment ieee;
  for (std::size_t done = 0; done < count;) {
    if (pieces.size() < kHeadBytes) return false;
    const std::size_t own = std::size_t{load_le<std::uint16_t>(pieces.data())} + 1;
    const int exponent = load_le<std::uint16_t>(pieces.data() + 2);
    const std::size_t bytes = own * (exponent == kUnscaled ? 4 : 1);
    pieces = pieces.subspan(kHeadBytes);
    if (own > count - done || exponent > kMaxPieceExponent || pieces.size() < bytes) return false;
    if (exponent == kUnscaled) {
      std::memcpy(values + 4 * done, pieces.data(), bytes);
    } else {
      const double scale = std::ldexp(1.0, exponent - kUnit);
      for (std::size_t i = 0; i < own; ++i) {
        const auto value = static_cast<float>(static_cast<std::int8_t>(pieces[i]) * scale);
        std::memcpy(values + 4 * (done + i), &value, sizeof value);
      }
    }
    pieces = pieces.subspan(bytes);
    done += own;
  }
  return pieces.empty();
}

}  // namespace sparcl::sparse
