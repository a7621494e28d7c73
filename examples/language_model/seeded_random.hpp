#pragma once
// Random numbers that are the same with every standard library: std::normal_distribution and its
// like are not.

#include <cmath>
#include <cstdint>
#include <numbers>

namespace training {

class SeededRandom {
 public:
  // Each (seed, stream) is a sequence of its own: one a rank, one a purpose.
  SeededRandom(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}

  std::uint64_t next() {
    return mix(state_ += 0x9E3779B97F4A7C15ULL);
  }  // splitmix64 (Steele, Lea, Flood 2014)
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  std::uint64_t below(std::uint64_t bound) {
    return next() % bound;
  }  // its bias is below 2^-40 for the bounds used here
  double normal() {
    return std::sqrt(-2 * std::log(1 - uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

}  // namespace training
