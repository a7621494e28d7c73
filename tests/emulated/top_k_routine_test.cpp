// The block routines of top-k, run on the host against the selection of the collectives.

#include <gtest/gtest.h>

#include "src/sparse/selection/selection.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/top_k_cut.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routines under test

// What launch_top_k() enqueues.
template <TopKType kType>
void run_top_k(const TopKWork& work, std::uint64_t seed) {
  const auto tiles = static_cast<unsigned>(tile_count(work.count));
  const int bits = 8 * sizeof(typename Elements<kType>::Accumulator);
  emulated::launch<emulated::NoShared>(4, kThreads, ++seed,
                                       [&](emulated::NoShared&) { sample_keys<kType>(work); });
  emulated::launch<GuessShared>(1, kThreads, ++seed,
                                [&](GuessShared& shared) { guess_threshold<kType>(shared, work); });
  emulated::launch<CompactionShared>(tiles, kThreads, ++seed, [&](CompactionShared& shared) {
    take_candidates<kType>(shared, work);
  });
  emulated::launch<emulated::NoShared>(1, kThreads, ++seed,
                                       [&](emulated::NoShared&) { begin_select(work); });
  for (int shift = bits - 8; shift >= 0; shift -= 8) {
    emulated::launch<DigitShared>(3, kThreads, ++seed, [&](DigitShared& shared) {
      count_digits<kType>(shared, work, shift);
    });
    emulated::launch<ChooseShared>(
        1, kThreads, ++seed, [&](ChooseShared& shared) { choose_digit(shared, work, shift); });
  }
  emulated::launch<CutShared>(7, kThreads, ++seed,
                              [&](CutShared& shared) { cut<kType>(shared, work); });
}

struct Case {
  std::size_t count;
  std::uint64_t k;
  bool has_feedback = true;
  unsigned kinds = 2;
  std::uint64_t capacity = SIZE_MAX;
};

template <class Types>
void check(const Case& c, std::uint64_t seed) {
  using E = Elements<Types::kTopK>;
  using Accumulator = typename E::Accumulator;
  SCOPED_TRACE(testing::Message() << c.count << " elements, k " << c.k << ", feedback "
                                  << c.has_feedback << ", kinds " << c.kinds << ", capacity "
                                  << c.capacity << ", seed " << seed);
  const auto values = random_values<typename E::Stored>(c.count, seed, c.kinds);
  std::vector<Accumulator> residual = random_values<Accumulator>(c.count, seed + 1, c.kinds),
                           expected = residual;
  sparse::Selection selection(Types::kDataType, kernels::reference_kernels());
  const sparse::Selected selected = selection.select(
      reinterpret_cast<const std::byte*>(values.data()),
      c.has_feedback ? reinterpret_cast<std::byte*>(expected.data()) : nullptr, c.count, c.k);

  const std::uint64_t capacity = std::min<std::uint64_t>(c.capacity, c.count);
  TopKState state{};
  std::vector<std::uint64_t> samples(kSamples), states(top_k_states(c.count)), indices(c.k),
      candidates(capacity), keys(capacity);
  std::vector<Accumulator> taken(c.k);
  std::uint64_t found = 0;
  const TopKWork work{values.data(),
                      c.has_feedback ? residual.data() : nullptr,
                      c.count,
                      c.k,
                      false,
                      indices.data(),
                      taken.data(),
                      &found,
                      &state,
                      samples.data(),
                      states.data(),
                      capacity,
                      candidates.data(),
                      keys.data()};
  run_top_k<Types::kTopK>(work, seed);
  ASSERT_EQ(found, selected.indices.size());
  indices.resize(found);
  EXPECT_TRUE(std::ranges::equal(indices, selected.indices));
  EXPECT_EQ(std::memcmp(taken.data(), selected.accumulators, found * sizeof(Accumulator)), 0);
  EXPECT_EQ(std::memcmp(residual.data(), expected.data(), c.count * sizeof(Accumulator)), 0);
}

template <class Types>
struct TopKRoutine : testing::Test {};
TYPED_TEST_SUITE(TopKRoutine, AllTypes);

TYPED_TEST(TopKRoutine, IsTheSelectionOfTheCollectives) {
  std::uint64_t seed = 10;
  for (const Case& c :
       {Case{1, 1}, Case{100, 0}, Case{100, 7}, Case{100, 100}, Case{100, 200}, Case{16'384, 16},
        Case{40'001, 400}, Case{40'001, 39'000}, Case{40'001, 400, false}, Case{40'001, 1, true, 1},
        Case{70'000, 700, true, 0}, Case{70'000, 65'000, false, 0}}) {
    check<TypeParam>(c, seed += 10);
  }
}

// As when too many reach the guess.
TYPED_TEST(TopKRoutine, WhereCandidatesHaveNoRoomAllElementsAreLookedAt) {
  check<TypeParam>({40'001, 400, true, 2, 300}, 5);
  check<TypeParam>({40'001, 400, false, 2, 0}, 6);
}

// All are alike, but for what no sample sees: the guess is too high, or too low.
TEST(TopKRoutineGuess, IsOnlyAGuess) {
  for (const float most : {0.0F, 1.0F}) {
    std::vector<float> values(100'000, most);
    for (std::size_t i = 0; i < 50; ++i) values[i * 1999] = 2;
    const std::uint64_t k = 60;
    TopKState state{};
    std::vector<std::uint64_t> samples(kSamples), states(top_k_states(values.size())), indices(k),
        candidates(values.size()), keys(values.size());
    std::uint64_t found = 0;
    const TopKWork work{values.data(),
                        nullptr,
                        values.size(),
                        k,
                        false,
                        indices.data(),
                        nullptr,
                        &found,
                        &state,
                        samples.data(),
                        states.data(),
                        values.size(),
                        candidates.data(),
                        keys.data()};
    run_top_k<TopKType::kFloat32>(work, 3);
    ASSERT_EQ(found, most == 0 ? 50U : 60U);
    std::vector<std::uint64_t> wanted;
    for (std::uint64_t i = 0, ties = 0; i < values.size(); ++i) {
      if (values[i] == 2 || (most == 1 && ties++ < 10)) wanted.push_back(i);
    }
    indices.resize(found);
    EXPECT_EQ(indices, wanted);
  }
}

TEST(TopKRoutineFeedback, WhatIsSentLeavesTheResidual) {
  const std::vector<float> values = random_values<float>(20'000, 3, 0);
  std::vector<float> residual(values.size(), 0.5F), expected(values.size()), taken(200);
  TopKState state{};
  std::vector<std::uint64_t> samples(kSamples), states(top_k_states(values.size())), indices(200),
      candidates(20'000), keys(20'000);
  std::uint64_t found = 0;
  const TopKWork work{values.data(),
                      residual.data(),
                      values.size(),
                      200,
                      true,
                      indices.data(),
                      taken.data(),
                      &found,
                      &state,
                      samples.data(),
                      states.data(),
                      20'000,
                      candidates.data(),
                      keys.data()};
  run_top_k<TopKType::kFloat32>(work, 9);
  ASSERT_EQ(found, 200U);
  for (std::size_t i = 0; i < values.size(); ++i) expected[i] = values[i] + 0.5F;
  for (std::size_t i = 0; i < found; ++i) {
    EXPECT_EQ(taken[i], expected[indices[i]]);
    expected[indices[i]] = 0;
  }
  EXPECT_EQ(residual, expected);
}

}  // namespace
}  // namespace sparcl::test
