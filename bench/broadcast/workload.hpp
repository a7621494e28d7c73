#pragma once
// Two bf16 states A and B that differ at a chosen share of their elements, on huge pages, the same
// on every rank from one seed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace bench {

// Large memory on huge pages where the machine has them; freed at the end.
struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::uint16_t* memory) const;
};
using Weights = std::unique_ptr<std::uint16_t[], Unmap>;
Weights allocate_weights(std::size_t count);

struct Workload {
  std::size_t count = 0;
  std::vector<std::uint64_t> changed;  // ascending
  Weights a, b;  // root: both states. Other ranks: `a` is their state, b is unused
};

constexpr std::size_t kClusterElements = 4096;

// A share `density` of the elements changes, each by one step of its last place: strewn, or
// clustered (half of the elements of a few clusters). stride: words of 16 bits an element, the
// first of which changes (2: float32, its low half noise).
Workload make_workload(std::size_t count, double density, std::uint64_t seed, bool clustered,
                       bool is_root, std::size_t stride = 1);

// Whether `held` is state A (or B), compared without a second copy.
bool holds(std::span<const std::uint16_t> held, const Workload& workload, std::uint64_t seed,
           bool state_b);

}  // namespace bench
