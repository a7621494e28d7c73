#pragma once
// Random numbers that are the same on every machine and standard library, so that a seed replays a
// run.

#include <cstdint>

namespace sparcl {

// One step of SplitMix64 (Steele, Lea, Flood 2014), also a good hash of one word.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class SeededRandom {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    const std::uint64_t value = mix64(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return value;
  }

  // In [0, bound); bound > 0. The bias of the remainder is below 2^-32 for the bounds used here.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  bool chance(double probability) { return unit() < probability; }

 private:
  std::uint64_t state_;
};

}  // namespace sparcl
