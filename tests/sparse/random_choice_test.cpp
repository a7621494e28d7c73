#include "src/sparse/mask/random_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/sparse/mask/philox.hpp"

namespace sparcl::sparse {
namespace {

// Known answers of the authors' implementation (Random123, kat_vectors).
TEST(Philox, HasItsKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(StratumPermutation, VisitsEachNumberOnce) {
  for (const std::uint32_t n : {1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 40'000, 65'535, 65'536}) {
    for (std::uint64_t stratum = 0; stratum < 3; ++stratum) {
      std::vector<std::uint16_t> images(n);
      StratumPermutation(n, 7, n, stratum).apply(0, n, images.data());
      std::sort(images.begin(), images.end());
      for (std::uint32_t i = 0; i < n; ++i) ASSERT_EQ(images[i], i) << n;
    }
  }
}

TEST(RandomChoice, TakesExactlySoManyOfEachStratum) {
  for (const std::uint64_t n : {0, 1, 2, 3, 64, 65, 1000, 65'536, 70'000, 400'000}) {
    for (const double share : {0.0, 1e-5, 0.01, 0.3, 0.5, 0.51, 0.99, 1.0}) {
      const auto k = static_cast<std::uint64_t>(std::llround(share * static_cast<double>(n)));
      const std::vector<std::uint64_t> chosen = choose(n, k, 3, 5);
      ASSERT_EQ(chosen.size(), k) << n;
      EXPECT_TRUE(std::is_sorted(chosen.begin(), chosen.end()));
      EXPECT_EQ(std::adjacent_find(chosen.begin(), chosen.end()), chosen.end());
      EXPECT_TRUE(chosen.empty() || chosen.back() < n);
      std::vector<double> in_stratum(n / kStratum + 1);
      for (const std::uint64_t i : chosen) ++in_stratum[i / kStratum];
      for (std::size_t s = 0; s < in_stratum.size() && s * kStratum < n; ++s) {
        const double own = static_cast<double>(std::min(kStratum, n - s * kStratum)) *
                           static_cast<double>(k) / static_cast<double>(n);
        EXPECT_LT(std::abs(in_stratum[s] - own), 1.0) << n << " " << k << " stratum " << s;
      }
    }
  }
}

// Fewer than strata: which of them have one is left to chance, each as often as any other.
TEST(RandomChoice, FewAreSpreadOverAllStrata) {
  std::vector<double> seen(8);
  for (std::uint64_t step = 0; step < 4'000; ++step) {
    for (const std::uint64_t i : choose(8 * kStratum, 1, 1, step)) ++seen[i / kStratum];
  }
  for (const double count : seen) EXPECT_NEAR(count, 500, 6 * std::sqrt(500.0));
}

TEST(RandomChoice, IsAFunctionOfSeedAndStep) {
  const std::vector<std::uint64_t> first = choose(100'000, 1'000, 1, 0);
  EXPECT_EQ(choose(100'000, 1'000, 1, 0), first);
  EXPECT_NE(choose(100'000, 1'000, 1, 1), first);
  EXPECT_NE(choose(100'000, 1'000, 2, 0), first);
  // Frozen: ranks of other releases draw the same.
  EXPECT_EQ(choose(1'000, 5, 42, 7), (std::vector<std::uint64_t>{68, 198, 425, 462, 650}));
}

// Each element equally often over many steps: chi-square with n - 1 degrees of freedom stays within
// 6 standard deviations.
TEST(RandomChoice, FavoursNoElement) {
  constexpr std::uint64_t kN = 1'000, kK = 100, kSteps = 2'000;
  std::vector<double> seen(kN);
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    for (const std::uint64_t i : choose(kN, kK, 11, step)) ++seen[i];
  }
  const double expected = static_cast<double>(kK * kSteps) / kN;
  double chi = 0;
  for (const double count : seen)
    chi +=
        (count - expected) * (count - expected) / (expected * (1 - static_cast<double>(kK) / kN));
  EXPECT_NEAR(chi, kN - 1, 6 * std::sqrt(2.0 * (kN - 1)));
}

// Neighbours are chosen together as often as any two.
TEST(RandomChoice, FavoursNoNeighbours) {
  constexpr std::uint64_t kN = 4'096, kK = 410, kSteps = 500;
  double together = 0;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const std::vector<std::uint64_t> chosen = choose(kN, kK, 5, step);
    for (std::size_t i = 1; i < chosen.size(); ++i) together += chosen[i] == chosen[i - 1] + 1;
  }
  const double p = static_cast<double>(kK) / kN * (kK - 1) / (kN - 1);
  const double expected = p * (kN - 1) * kSteps;
  EXPECT_NEAR(together, expected, 6 * std::sqrt(expected));
}

}  // namespace
}  // namespace sparcl::sparse
