#include "floor.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace bench {

std::uint64_t read_two_arrays(std::span<const std::uint16_t> a, std::span<const std::uint16_t> b) {
  typedef std::uint64_t Lane __attribute__((vector_size(64), aligned(2), may_alias));
  Lane sums[4] = {};
  const std::size_t lanes = a.size() * sizeof(std::uint16_t) / sizeof(Lane) / 4 * 4;
  const auto* pa = reinterpret_cast<const Lane*>(a.data());
  const auto* pb = reinterpret_cast<const Lane*>(b.data());
  for (std::size_t i = 0; i < lanes; i += 4) {
    __builtin_prefetch(reinterpret_cast<const char*>(pa + i) + 2048);
    __builtin_prefetch(reinterpret_cast<const char*>(pb + i) + 2048);
    for (std::size_t j = 0; j < 4; ++j) sums[j] |= pa[i + j] ^ pb[i + j];
  }
  const Lane all = sums[0] | sums[1] | sums[2] | sums[3];
  std::uint64_t result = 0;
  for (int i = 0; i < 8; ++i) result |= all[i];
  return result;
}

void touch_changed(std::span<std::uint16_t> weights, std::span<const std::uint64_t> changed) {
  constexpr std::size_t kAhead = 256;
  for (std::size_t i = 0; i < changed.size(); ++i) {
    if (i + kAhead < changed.size()) __builtin_prefetch(&weights[changed[i + kAhead]], 1, 2);
    auto* element = const_cast<volatile std::uint16_t*>(&weights[changed[i]]);
    *element = *element;
  }
}

void pass_dense(bool is_root, std::span<std::uint16_t> weights, std::span<std::uint16_t> log) {
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  alignas(64) static std::uint16_t shared[kPiece];
  for (std::size_t at = 0; at < weights.size(); at += kPiece) {
    const std::size_t bytes = 2 * std::min(kPiece, weights.size() - at);
    if (is_root) {
      std::memcpy(shared, weights.data() + at, bytes);
    } else {
      std::memcpy(log.data() + at, weights.data() + at, bytes);
      std::memcpy(weights.data() + at, shared, bytes);
    }
    asm volatile("" ::: "memory");
  }
}

}  // namespace bench
