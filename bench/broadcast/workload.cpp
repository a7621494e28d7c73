#include "workload.hpp"

#include <sys/mman.h>

#include <cmath>
#include <new>

namespace bench {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): element i of a stream, without the ones before it.
std::uint64_t mix(std::uint64_t seed, std::uint64_t i) {
  std::uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// A weight of a trained layer: small, either sign, exponents spread as those of a normal
// distribution are.
std::uint16_t weight(std::uint64_t seed, std::uint64_t i) {
  const std::uint64_t bits = mix(seed, i);
  const float magnitude =
      0.02f * std::sqrt(-std::log(static_cast<float>((bits >> 40) + 1) / 16777217.0f));
  std::uint32_t word;
  __builtin_memcpy(&word, &magnitude, sizeof word);
  return static_cast<std::uint16_t>((word >> 16) | ((bits & 1) << 15));
}

std::uint16_t stepped(std::uint16_t value, std::uint64_t i) {
  return static_cast<std::uint16_t>(i % 2 == 0 ? value ^ 1 : value + 1);
}

}  // namespace

void Unmap::operator()(std::uint16_t* memory) const { munmap(memory, bytes); }

Weights allocate_weights(std::size_t count) {
  const std::size_t bytes =
      (count * sizeof(std::uint16_t) + (2u << 20)) & ~std::size_t{(2u << 20) - 1};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return Weights(static_cast<std::uint16_t*>(memory), Unmap{bytes});
}

// Gaps of a Bernoulli process are geometric: one random number a change, not one an element.
std::vector<std::uint64_t> strewn(std::uint64_t count, double density, std::uint64_t seed) {
  std::vector<std::uint64_t> chosen;
  const double scale = density < 1 ? 1 / std::log1p(-density) : 0;
  for (std::uint64_t at = 0, draw = 0; density > 0; ++at, ++draw) {
    const double uniform = (static_cast<double>(mix(seed ^ 0x5eed, draw) >> 11) + 1) * 0x1p-53;
    at += density < 1 ? static_cast<std::uint64_t>(std::log(uniform) * scale) : 0;
    if (at >= count) break;
    chosen.push_back(at);
  }
  return chosen;
}

std::vector<std::uint64_t> in_clusters(std::uint64_t count, double density, std::uint64_t seed) {
  std::vector<std::uint64_t> chosen;
  for (const std::uint64_t cluster : strewn(count / kClusterElements, 2 * density, seed)) {
    for (std::uint64_t i = cluster * kClusterElements; i < (cluster + 1) * kClusterElements; ++i) {
      if (mix(seed ^ 0xc105, i) % 2 == 0) chosen.push_back(i);
    }
  }
  return chosen;
}

Workload make_workload(std::size_t count, double density, std::uint64_t seed, bool clustered,
                       bool is_root, std::size_t stride) {
  Workload work;
  work.count = count;
  work.a = allocate_weights(count);
  work.changed = clustered ? in_clusters(count / stride, density, seed)
                           : strewn(count / stride, density, seed);
  for (std::uint64_t& word : work.changed) word *= stride;
  for (std::size_t i = 0; i < count; ++i) work.a[i] = weight(seed, i);
  if (!is_root) return work;
  work.b = allocate_weights(count);
  __builtin_memcpy(work.b.get(), work.a.get(), count * sizeof(std::uint16_t));
  for (const std::uint64_t i : work.changed) work.b[i] = stepped(work.a[i], i);
  return work;
}

bool holds(std::span<const std::uint16_t> held, const Workload& work, std::uint64_t seed,
           bool state_b) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < held.size(); ++i) {
    std::uint16_t expected = weight(seed, i);
    if (next < work.changed.size() && work.changed[next] == i) {
      ++next;
      if (state_b) expected = stepped(expected, i);
    }
    if (held[i] != expected) return false;
  }
  return true;
}

}  // namespace bench
