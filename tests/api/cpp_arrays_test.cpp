// The calls of sparcl.hpp with every kind of array, and their non-blocking twins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "sparcl/sparcl.hpp"

namespace sparcl::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void on_ranks(int ranks, const std::function<void(Comm& comm)>& program) {
  std::vector<Comm> comms = Comm::local(ranks);
  std::vector<std::thread> threads;
  for (Comm& comm : comms) threads.emplace_back([&] { program(comm); });
  for (std::thread& thread : threads) thread.join();
}

TEST(CppArrays, TopKTakesVectorsSpansAndArraysOfBothKinds) {
  on_ranks(2, [](Comm& comm) {
    std::vector<float> vector{3, 0, 1, 0};
    const std::vector<float> fixed = vector;
    std::array<float, 4> array{};
    float plain[4] = {};
    Feedback feedback = Feedback::of<float>(4);
    comm.all_reduce_top_k(vector, vector, 1, &feedback);
    EXPECT_THAT(vector, ElementsAre(6, 0, 0, 0));
    comm.all_reduce_top_k(fixed, array, 1, nullptr);
    comm.all_reduce_top_k(std::span(fixed), plain, 1, nullptr);
    comm.all_reduce_top_k(std::span(array), std::span<float, 4>(plain), 4, nullptr);
    EXPECT_THAT(plain, ElementsAre(12, 0, 0, 0));
    comm.all_reduce_top_k<float>(vector, array, 1, nullptr);
    EXPECT_THAT(array, ElementsAre(12, 0, 0, 0));
    comm.start_all_reduce_top_k(plain, plain, 4, &feedback).wait();
    EXPECT_THAT(plain, ElementsAre(24, 0, 2, 0)) << "with what the feedback kept";
  });
}

TEST(CppArrays, MaskedSumsTakeAllArrays) {
  on_ranks(2, [](Comm& comm) {
    const std::vector<std::uint64_t> chosen{1, 3};
    const Mask mask = Mask::of_indices(chosen, 4);
    Feedback feedback = Feedback::of<double>(4);
    const std::array<double, 4> sent{1, 2, 3, 4};
    std::vector<double> received(4);
    comm.all_reduce_masked(sent, received, mask);
    EXPECT_THAT(received, ElementsAre(0, 4, 0, 8));
    comm.all_reduce_masked(received, received, mask, sparclMax);
    comm.all_reduce_masked(sent, received, mask, &feedback);
    EXPECT_THAT(received, ElementsAre(0, 4, 0, 8));
    Request plain = comm.start_all_reduce_masked(sent, std::span(received), mask);
    plain.wait();
    comm.start_all_reduce_masked(sent, received, mask, &feedback, SPARCL_MASKED_OPTIONS_INITIALIZER,
                                 sparclAvg)
        .wait();
    EXPECT_THAT(received, ElementsAre(0, 2, 0, 4));
  });
}

TEST(CppArrays, BroadcastsTakeAllArrays) {
  on_ranks(3, [](Comm& comm) {
    const bool is_root = comm.rank() == 1;
    std::vector<std::int32_t> weights(100, is_root ? 7 : 5), base(100, 5);
    const std::vector<std::int32_t> expected(100, 7);
    comm.broadcast_delta(weights, base, 1);
    EXPECT_EQ(weights, expected);
    base = weights;
    if (is_root) weights[3] = 9;
    comm.start_broadcast_delta(weights, base, 1).wait();
    EXPECT_EQ(weights[3], 9);
    std::array<std::int32_t, 3> small{is_root ? 1 : 0, 2, 3};
    comm.broadcast_delta(small, {}, 1);
    EXPECT_THAT(small, ElementsAre(1, 2, 3));

    std::vector<float> values(4, is_root ? 2.5F : 0);
    std::vector<std::uint64_t> indices{0, 10, 20, 30};
    std::size_t nnz = is_root ? 2 : 0;
    comm.start_broadcast_sparse(values, indices, nnz, 1).wait();
    EXPECT_EQ(nnz, 2U);
    EXPECT_EQ(values[1], 2.5F);

    State state;
    state.add("vector", weights, {100});
    state.add("array", small, {3});
    comm.broadcast_update(state, 1, 1);
  });
}

TEST(CppArrays, SparseSumsGrowTheirVectors) {
  on_ranks(3, [](Comm& comm) {
    const auto rank = static_cast<std::uint64_t>(comm.rank());
    std::vector<float> values{1, 2};
    const std::vector<std::uint64_t> indices{rank, 10 + rank};
    std::vector<float> sums;
    std::vector<std::uint64_t> where;
    if (rank == 1) sums.reserve(100), where.reserve(100);
    const Report report = comm.all_reduce_sparse(values, indices, 100, sums, where);
    EXPECT_THAT(where, ElementsAre(0, 1, 2, 10, 11, 12));
    EXPECT_THAT(sums, ElementsAre(1, 1, 1, 2, 2, 2));
    EXPECT_EQ(report.nnz_out, 6U);
    comm.all_reduce_sparse(std::span(values), indices, 100, sums, where, sparclMax);
    EXPECT_EQ(sums.size(), 6U);
    comm.all_reduce_sparse(std::span<const float>(values), indices, 100, sums, where, 6);
    EXPECT_EQ(sums.size(), 6U);
  });
}

TEST(CppArrays, ACapacityThatIsGivenIsALimit) {
  on_ranks(2, [](Comm& comm) {
    const std::vector<float> values{1};
    const std::vector<std::uint64_t> indices{static_cast<std::uint64_t>(comm.rank())};
    std::vector<float> sums{5};
    std::vector<std::uint64_t> where{6};
    sums.reserve(100), where.reserve(100);
    try {
      comm.all_reduce_sparse(values, indices, 10, sums, where, comm.rank() == 0 ? 100U : 1U);
      ADD_FAILURE() << "two entries in room for one";
    } catch (const Error& error) {
      EXPECT_EQ(error.result(), sparclTruncated) << error.what();
    }
    EXPECT_THAT(sums, ElementsAre(5));
    EXPECT_EQ(comm.report().nnz_out, 2U);

    std::array<float, 2> room{};
    std::array<std::uint64_t, 2> places{};
    std::size_t nnz = 0;
    comm.start_all_reduce_sparse(values, indices, 10, room, places, nnz).wait();
    EXPECT_EQ(nnz, 2U);
    EXPECT_THAT(places, ElementsAre(0, 1));
  });
}

}  // namespace
}  // namespace sparcl::test
