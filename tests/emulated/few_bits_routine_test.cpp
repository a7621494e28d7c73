// The block routine that rounds to 4 and 2 bits, run on the host against what the collectives round
// to.

#include <gtest/gtest.h>

#include "tests/emulated/emulated_cuda.hpp"
#include "tests/emulated/float_groups.hpp"
// After the emulation.
#include "kernels/cuda/few_bits_group.cuh"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routine under test

template <unsigned kBits>
std::vector<float> rounded_by_routine(const std::vector<float>& values, std::uint64_t seed) {
  std::vector<float> rounded(values.size() + 1, 77);
  std::uint64_t count = values.size();
  const ScaledWork work{{}, &count, count + 1000, values.data(), rounded.data()};
  emulated::launch<emulated::NoShared>(static_cast<unsigned>(scaled_blocks(work.capacity)),
                                       kThreads, seed,
                                       [&](emulated::NoShared&) { round_group_to<kBits>(work); });
  EXPECT_EQ(rounded.back(), 77);
  rounded.pop_back();
  return rounded;
}

void expect_rounded(const std::vector<float>& values, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << values.size() << " values, seed " << seed);
  for (const sparse::ValueForm form : {sparse::ValueForm::kScaled4, sparse::ValueForm::kScaled2}) {
    const std::vector<float> wanted = rounded_to(form, values);
    const std::vector<float> got = form == sparse::ValueForm::kScaled4
                                       ? rounded_by_routine<4>(values, seed)
                                       : rounded_by_routine<2>(values, seed);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_EQ(emulated::bits_of(got[i]), emulated::bits_of(wanted[i])) << i;
  }
}

TEST(FewBitsRoutine, IsWhatTheCollectivesRoundTo) {
  std::uint64_t seed = 1;
  for (const std::size_t count : {1UL, 3UL, 127UL, 128UL, 129UL, 1025UL, 20'000UL}) {
    expect_rounded(float_groups(count, seed, 4), seed);
    ++seed;
    std::vector<float> selected = float_groups(count, seed, 0);
    for (float& value : selected)
      value = value < 0 ? -2.4F + value * 1e-20F : 2.4F + value * 1e-20F;
    expect_rounded(selected, seed);
    ++seed;
  }
}

TEST(FewBitsRoutine, SelectedValuesAndRoundedOnes) {
  std::mt19937_64 random(3);
  std::exponential_distribution<float> excess(1);
  for (const float size : {1e-44F, 1e-38F, 1.0F, 5e37F}) {
    std::vector<float> values(3000);
    for (float& value : values)
      value = (random() % 2 == 0 ? 1.F : -1.F) * size * (2.4F + 0.35F * excess(random));
    expect_rounded(values, random());
    expect_rounded(rounded_to(sparse::ValueForm::kScaled2, values), random());
    expect_rounded(rounded_to(sparse::ValueForm::kScaled4, values), random());
  }
}

TEST(FewBitsRoutine, TheLeastAndTheLargest) {
  for (const float largest : {1e-45F, 1e-40F, 3.4028235e38F, 3.3895314e38F, 1.0F, 0.0F})
    expect_rounded({largest, -largest, largest / 3, -0.0F, largest / 2}, 5);
}

}  // namespace
}  // namespace sparcl::test
