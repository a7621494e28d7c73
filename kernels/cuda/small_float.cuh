#pragma once
// Floats of 8 and 16 bits as float32 and back, as src/base/number has them: to nearest, ties to
// even. Done with integers: the language alone, so that the host's emulation and all devices agree.

#include <cstdint>
#include <cstring>

namespace sparcl::kernels::cuda {

template <class To, class From>
__device__ inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

// kHasInfinity: if false, only the pattern of all ones is a NaN (OCP 8-bit floating point
// specification, E4M3).
template <unsigned kExponentBits, unsigned kMantissaBits, bool kHasInfinity>
struct SmallFloat {
  static constexpr std::uint32_t kBias = (1U << (kExponentBits - 1)) - 1;
  static constexpr std::uint32_t kSign = 1U << (kExponentBits + kMantissaBits);
  static constexpr std::uint32_t kInfinity = ((1U << kExponentBits) - 1) << kMantissaBits;
  static constexpr std::uint32_t kNan =
      kHasInfinity ? kInfinity | 1U << (kMantissaBits - 1) : kSign - 1;
  static constexpr std::uint32_t kLargest = kHasInfinity ? kInfinity - 1 : kSign - 2;
  static constexpr std::uint32_t kShift = 23 - kMantissaBits;  // between both mantissas
  static constexpr std::uint32_t kRebias = 127 - kBias;
  static_assert(kShift > 0);

  __device__ static float widen(std::uint32_t bits) {
    const std::uint32_t sign = (bits & kSign) != 0 ? 0x80000000U : 0, size = bits & (kSign - 1);
    if (size > kLargest)
      return bits_as<float>(sign | 0x7f800000U |
                            (kHasInfinity ? (size - kInfinity) << kShift : 1U << 22));
    if (kRebias == 0 || size >= 1U << kMantissaBits)
      return bits_as<float>(sign | ((size << kShift) + (kRebias << 23)));
    constexpr std::uint32_t kUnitBits = (kRebias + 1 - kMantissaBits)
                                        << 23;  // the smallest number above 0
    return bits_as<float>(sign | bits_as<std::uint32_t>(static_cast<float>(size) *
                                                        bits_as<float>(kUnitBits)));  // exact
  }

  __device__ static std::uint32_t narrow(float value) {
    const std::uint32_t bits = bits_as<std::uint32_t>(value), size = bits & 0x7fffffffU;
    if (size > 0x7f800000U) return kNan;
    std::uint32_t rounded;
    if (kRebias == 0 || size >= (kRebias + 1) << 23) {
      rounded = ((size + (1U << (kShift - 1)) - 1 + (size >> kShift & 1)) >> kShift) -
                (kRebias << kMantissaBits);
    } else {  // below the smallest normal number: an addition rounds to its unit
      constexpr std::uint32_t kUnits = (kRebias + 24 - kMantissaBits) << 23;
      rounded = bits_as<std::uint32_t>(bits_as<float>(size) + bits_as<float>(kUnits)) - kUnits;
    }
    if (rounded > kLargest) rounded = kHasInfinity ? kInfinity : kLargest;
    return ((bits & 0x80000000U) != 0 ? kSign : 0) | rounded;
  }
};

using Float16 = SmallFloat<5, 10, true>;
using Bfloat16 = SmallFloat<8, 7, true>;
using Float8e4m3 = SmallFloat<4, 3, false>;
using Float8e5m2 = SmallFloat<5, 2, true>;

}  // namespace sparcl::kernels::cuda
