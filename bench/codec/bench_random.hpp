#pragma once
// Random numbers for inputs: fast, and the same everywhere for one seed.

#include <bit>
#include <cmath>
#include <cstdint>

namespace sparcl::bench {

// SplitMix64 (Steele, Lea & Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t end) { return bits() % end; }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  bool with(double probability) { return uniform() < probability; }

  // N(0, 1), by Box and Muller's pairs.
  float normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const float radius = std::sqrt(-2 * std::log(1 - static_cast<float>(bits() >> 40) * 0x1p-24F));
    const float angle = static_cast<float>(bits() >> 40) * (0x1p-24F * 6.2831853F);
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }

  // How many fail before the next success, each with `probability`.
  std::uint64_t gap(double probability) {
    if (probability >= 1) return 0;
    return static_cast<std::uint64_t>(std::log1p(-uniform()) / std::log1p(-probability));
  }

 private:
  std::uint64_t state_;
  float spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace sparcl::bench
