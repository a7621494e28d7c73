#pragma once
// Ranks that are threads, and what each has.

#include <cmath>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace sparcl::test {

constexpr std::size_t kCount = 10'000;

inline void on_ranks(int ranks, const std::function<void(Comm&)>& body) {
  std::vector<Comm> comms = Comm::local(ranks);
  std::vector<std::thread> threads;
  for (Comm& comm : comms) threads.emplace_back([&comm, &body] { body(comm); });
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<float> values_of(int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = std::sin(static_cast<float>(i * (static_cast<std::size_t>(rank) + 3)));
  return values;
}

}  // namespace sparcl::test
