#include "bench/codec/entropy_limits.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

namespace sparcl::bench {
namespace {

constexpr unsigned kKeys = 256;

// The key of the statistics: the top eight bits of a float's magnitude, as in the wire format's
// classes.
template <class Bits>
unsigned key_of(Bits value, bool is_float) {
  constexpr unsigned kWidth = 8 * sizeof(Bits);
  if (!is_float) return 0;
  return static_cast<unsigned>(static_cast<Bits>(value << 1) >> (kWidth - 8));
}

template <class Bits>
Bits ord(Bits value, bool is_float) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  if (!is_float) return value;
  return static_cast<Bits>((value & kSign) != 0 ? ~value : value | kSign);
}

// Bits of `changed` positions among `count`, if all sets of this size are equally likely (to first
// order).
double set_bits(double changed, double count) {
  if (changed <= 0 || changed >= count) return 0;
  const double p = changed / count;
  return -changed * std::log2(p) - (count - changed) * std::log2(1 - p);
}

template <class Bits>
Limits count_limits(const Bits* base, const Bits* target, std::uint64_t count, bool is_float) {
  constexpr bool kCounted = sizeof(Bits) <= 2;
  constexpr std::size_t kSteps =
      kCounted ? std::size_t{1} << (8 * std::min<std::size_t>(sizeof(Bits), 2)) : 1;
  std::vector<std::uint64_t> elements(kKeys), changed(kKeys);
  std::vector<std::uint32_t> steps(kCounted ? kKeys * kSteps : 1);
  for (std::uint64_t i = 0; i < count; ++i) {
    const unsigned key = key_of(base[i], is_float);
    ++elements[key];
    if (base[i] == target[i]) continue;
    ++changed[key];
    if constexpr (kCounted)
      ++steps[key * kSteps + static_cast<Bits>(ord(target[i], is_float) - ord(base[i], is_float))];
  }
  Limits limits;
  for (const std::uint64_t times : changed) limits.changed += times;
  if (limits.changed == 0) return limits;
  const auto all = static_cast<double>(limits.changed);
  limits.blind.known = limits.given_old.known = kCounted;
  limits.blind.place_bits = set_bits(all, static_cast<double>(count)) / all;
  for (unsigned key = 0; key < kKeys; ++key) {
    limits.given_old.place_bits +=
        set_bits(static_cast<double>(changed[key]), static_cast<double>(elements[key])) / all;
  }
  if constexpr (kCounted) {
    const auto add = [all](double& bits, double times, double of) {
      if (times > 0) bits -= times / all * std::log2(times / of);
    };
    for (std::size_t step = 0; step < kSteps; ++step) {
      double times = 0;
      for (unsigned key = 0; key < kKeys; ++key) {
        const double here = steps[key * kSteps + step];
        times += here;
        add(limits.given_old.value_bits, here, static_cast<double>(changed[key]));
      }
      add(limits.blind.value_bits, times, all);
    }
  }
  return limits;
}

}  // namespace

Limits limits_of(DataType type, const std::byte* base, const std::byte* target,
                 std::uint64_t count) {
  const bool is_float = info(type).is_float;
  const auto of = [&](auto bits) {
    using Bits = decltype(bits);
    return count_limits(reinterpret_cast<const Bits*>(base), reinterpret_cast<const Bits*>(target),
                        count, is_float);
  };
  switch (element_bytes(type)) {
    case 1:
      return of(std::uint8_t{});
    case 2:
      return of(std::uint16_t{});
    case 4:
      return of(std::uint32_t{});
    default:
      return of(std::uint64_t{});
  }
}

double chain_place_bits(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count,
                        double inside, double leave, double enter) {
  double active = enter / (enter + leave);  // given all elements until now
  double bits = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool changed = base[i] != target[i];
    const double likelihood = changed ? active * inside : 1 - active * inside;
    bits -= std::log2(likelihood);
    const double posterior = changed ? 1 : active * (1 - inside) / likelihood;
    active = posterior * (1 - leave) + (1 - posterior) * enter;
  }
  return bits;
}

double block_place_bits(const std::uint16_t* base, const std::uint16_t* target, std::uint64_t count,
                        std::uint64_t block, double active, double inside) {
  double bits = 0;
  for (std::uint64_t first = 0; first < count; first += block) {
    const std::uint64_t size = std::min(block, count - first);
    std::uint64_t changed = 0;
    for (std::uint64_t i = first; i < first + size; ++i) changed += base[i] != target[i];
    const auto unchanged = static_cast<double>(size - changed);
    if (changed == 0) {
      bits -= std::log2(1 - active + active * std::pow(1 - inside, static_cast<double>(size)));
    } else {
      bits -= std::log2(active) + static_cast<double>(changed) * std::log2(inside);
      if (unchanged > 0) bits -= unchanged * std::log2(1 - inside);
    }
  }
  return bits;
}

}  // namespace sparcl::bench
