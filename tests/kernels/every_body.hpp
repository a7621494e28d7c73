#pragma once
// Runs a test for every body of the kernels that this machine has, against the scalar reference.

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_set.hpp"

namespace sparcl::kernels {

class EveryBody : public testing::TestWithParam<const KernelSet*> {
 protected:
  const KernelSet& body() const { return *GetParam(); }
  const KernelSet& reference() const { return reference_kernels(); }
};

inline std::vector<const KernelSet*> bodies() {
  std::vector<const KernelSet*> sets{&reference_kernels()};
  for (const KernelSet& set : all_cpu_kernels()) sets.push_back(&set);
  return sets;
}

inline std::string body_name(const testing::TestParamInfo<const KernelSet*>& each) {
  std::string name;
  for (const char* at = each.param->name; *at != '\0'; ++at)
    name += std::isalnum(static_cast<unsigned char>(*at)) ? *at : '_';
  return name;
}

#define SPARCL_FOR_EVERY_BODY(fixture) \
  INSTANTIATE_TEST_SUITE_P(Bodies, fixture, testing::ValuesIn(bodies()), body_name)

// Around every multiple of a vector's lanes that a body may have, and of its chunk.
inline std::vector<std::size_t> interesting_counts() {
  return {0,  1,   2,   3,   7,   8,   9,   15,  16,  17,  31,   32,   33,   63,  64,
          65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 1000, 4095, 4096, 8265};
}

inline std::vector<std::byte> random_bytes(std::size_t count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Ascending positions below `span`, each with probability `percent`.
inline std::vector<std::uint16_t> random_positions(std::size_t span, unsigned percent,
                                                   std::mt19937_64& random) {
  std::vector<std::uint16_t> positions;
  for (std::size_t i = 0; i < span; ++i) {
    if (random() % 100 < percent) positions.push_back(static_cast<std::uint16_t>(i));
  }
  return positions;
}

}  // namespace sparcl::kernels
