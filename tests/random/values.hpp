#pragma once
// Elements of every data type as a caller may have them: any bits, special numbers, or small steps;
// and what they are as numbers.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/base/seeded_random.hpp"

namespace sparcl::test {

using ByteList = std::vector<unsigned char>;

inline constexpr std::array kAllTypes{
    sparclInt8,       sparclUint8,      sparclInt32,   sparclUint32,  sparclInt64,
    sparclUint64,     sparclFloat16,    sparclFloat32, sparclFloat64, sparclBfloat16,
    sparclFloat8e4m3, sparclFloat8e5m2, sparclInt16,   sparclUint16,  sparclBool};

std::size_t width_of(sparclDataType_t datatype);

enum class Style : std::uint8_t {
  kBits,     // any: NaN, infinite, -0 among them
  kSpecial,  // nothing but NaN of several bits, infinities, both zeros, denormals, largest and
             // smallest
  kSmall,    // close to each other, changed by a step of the last place
  kWhole,    // small whole numbers, zeros among them: sums are exact in any order, magnitudes are
             // often equal
};

ByteList make_values(sparclDataType_t datatype, std::size_t count, Style style,
                     SeededRandom& random);

// About `share` of the elements get other bits; returns which, ascending.
std::vector<std::uint64_t> change_values(ByteList& values, sparclDataType_t datatype, double share,
                                         Style style, SeededRandom& random);

// Scalar and plain: an oracle.
double number_at(sparclDataType_t datatype, const unsigned char* at);
// To the nearest, ties to even; too large: infinity, or the largest where there is none. Of float
// types, and of whole numbers.
void put_number(sparclDataType_t datatype, double number, unsigned char* at);

// Bytes with a fence on both sides, which begin at a chosen distance from an aligned address.
class Fenced {
 public:
  explicit Fenced(std::size_t bytes = 0, std::size_t offset = 0)
      : offset_(kFence + offset), bytes_(bytes), all_(offset_ + bytes + kFence, kFill) {}
  unsigned char* data() { return all_.data() + offset_; }
  std::span<unsigned char> bytes() { return {data(), bytes_}; }
  void set(const ByteList& values);
  bool holds(const ByteList& values) const;     // and nothing was written around it
  static constexpr unsigned char kFill = 0xa5;  // what it holds at first

 private:
  static constexpr std::size_t kFence = 64;
  std::size_t offset_, bytes_;
  ByteList all_;
};

}  // namespace sparcl::test
