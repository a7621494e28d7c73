// sparcl's calls on Kokkos views give what they give on spans, in the order of the execution space.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "sparcl/sparcl_kokkos.hpp"
#include "tests/kokkos/ranks.hpp"
#include "tests/kokkos/views.hpp"

namespace sparcl::test {
namespace {

TEST(KokkosCalls, MaskedSumsAreThoseOfSpans) {
  on_ranks(3, [](Comm& comm) {
    const Mask mask = Mask::random(kCount, 0.1, 5);
    std::vector<float> expected = values_of(comm.rank());
    comm.all_reduce_masked<float>(expected, expected, mask);
    const Array<float> view = to_view(values_of(comm.rank()));
    const Report report = kokkos::all_reduce_masked(Space(), comm, view, view, mask);
    EXPECT_EQ(to_vector(view), expected);
    EXPECT_GT(report.bytes_sent, 0U);
  });
}

TEST(KokkosCalls, TopKWithFeedbackIsThatOfSpans) {
  on_ranks(4, [](Comm& comm) {
    Feedback feedback = Feedback::of<float>(kCount), own = Feedback::of<float>(kCount);
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> sent = values_of(comm.rank() + step);
      std::vector<float> expected(kCount);
      comm.all_reduce_top_k<float>(sent, expected, 100, &feedback);
      const Array<float> from = to_view(sent), received("received", kCount);
      kokkos::all_reduce_top_k(Space(), comm, Kokkos::View<const float*, Space>(from), received,
                               100, &own);
      EXPECT_EQ(to_vector(received), expected);
    }
  });
}

// The whole exchange where the views are: only what is sent leaves them.
TEST(KokkosCalls, TopKByKernelsAndASparseSumIsModeSelected) {
  const std::uint64_t k = 50;
  std::mutex scans;  // Kokkos 3.4's Serial space scans in memory that all threads share
  on_ranks(2, [k, &scans](Comm& comm) {
    const Space space;
    Feedback feedback = Feedback::of<float>(kCount);
    const Array<float> residual("residual", kCount), taken("taken", k), sums("sums", 2 * k),
        received("received", kCount);
    const Indices chosen("chosen", k), found_at("found_at", 2 * k);
    const kokkos::Count<Space> count("count");
    kokkos::TopK<Space> top_k(space);
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> sent = values_of(comm.rank() + 2 * step);
      std::vector<float> expected(kCount);
      sparclTopKOptions_t options = SPARCL_TOPK_OPTIONS_INITIALIZER;
      options.mode = sparclTopKSelected;
      comm.all_reduce_top_k<float>(sent, expected, k, &feedback, options);

      kokkos::accumulate(space, to_view(sent), residual);
      {
        const std::scoped_lock lock(scans);
        top_k.find(residual, k, chosen, count);
      }
      kokkos::gather(space, residual, chosen, count, taken);
      const std::size_t entries = kokkos::all_reduce_sparse(
          space, comm, taken, chosen, kokkos::wait_for(space, count), kCount, sums, found_at);
      kokkos::clear_sent(space, chosen, count, residual);
      Kokkos::deep_copy(space, received, 0.0F);
      Kokkos::deep_copy(space, count, entries);
      kokkos::scatter(space, sums, found_at, count, received);
      EXPECT_EQ(to_vector(received), expected);
    }
  });
}

TEST(KokkosCalls, ChangedWeightsReachAll) {
  on_ranks(2, [](Comm& comm) {
    const std::vector<float> base = values_of(7);
    std::vector<float> target = base;
    target[4] = 9;
    target[kCount - 1] = -0.0F;
    const Array<float> weights = to_view(comm.rank() == 0 ? target : base), held = to_view(base);
    const Report report = kokkos::broadcast_delta(Space(), comm, weights, held, 0);
    EXPECT_EQ(to_vector(weights), target);
    EXPECT_LT(report.bytes_received + report.bytes_sent, 1000U);
  });
}

TEST(KokkosCalls, MoreEntriesThanViewsHaveAreRefusedOnAllRanks) {
  on_ranks(2, [](Comm& comm) {
    const Array<float> values("values", 10), sums("sums", 20);
    const Indices indices("indices", 10), found_at("found_at", 20);
    const std::size_t nnz = comm.rank() == 0 ? 11 : 10;
    try {
      kokkos::all_reduce_sparse(Space(), comm, values, indices, nnz, kCount, sums, found_at);
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.result(), sparclInvalidArgument) << error.what();
    }
  });
}

TEST(KokkosCalls, ViewsAreTensorsOfAState) {
  State state;
  const Array<float> view = to_view(values_of(1));
  kokkos::add(state, "layer", view);
  State same;
  std::vector<float> copy = values_of(1);
  same.add("layer", std::span(copy), {copy.size()});
  EXPECT_EQ(state.hash(), same.hash());
}

TEST(KokkosCalls, WithoutABaseAllIsSent) {
  on_ranks(2, [](Comm& comm) {
    const Array<float> weights = to_view(values_of(comm.rank())), none("none", 0);
    kokkos::broadcast_delta(Space(), comm, weights, Kokkos::View<const float*, Space>(none), 1);
    EXPECT_EQ(to_vector(weights), values_of(1));
  });
}

TEST(KokkosCalls, ViewsOfDifferentLengthsAreRefusedOnAllRanks) {
  on_ranks(2, [](Comm& comm) {
    const Array<float> ten("ten", 10), other("other", comm.rank() == 0 ? 9 : 10);
    const Mask mask = Mask::random(10, 0.5, 1);
    const auto is_refused = [&](const char* name, auto&& call) {
      try {
        call();
        ADD_FAILURE() << name << ": taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.result(), sparclInvalidArgument) << name << ": " << error.what();
      }
    };
    is_refused("masked", [&] { kokkos::all_reduce_masked(Space(), comm, other, ten, mask); });
    is_refused("top-k", [&] { kokkos::all_reduce_top_k(Space(), comm, other, ten, 3, nullptr); });
    is_refused("delta", [&] { kokkos::broadcast_delta(Space(), comm, ten, other, 0); });
  });
}

// Nothing at all, on all ranks.
TEST(KokkosCalls, EmptyViews) {
  on_ranks(3, [](Comm& comm) {
    const Array<float> none("none", 0), same("same", 0);
    const Indices nowhere("nowhere", 0);
    EXPECT_EQ(kokkos::all_reduce_sparse(Space(), comm, none, nowhere, 0, kCount, same, nowhere),
              0U);
    kokkos::broadcast_delta(Space(), comm, none, same, 0);
  });
}

// bfloat16 and float16: views of sparcl's types, as spans of them.
template <class T>
struct CallsOfHalves : ::testing::Test {};
using HalfTypes = ::testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(CallsOfHalves, HalfTypes);

template <class T>
std::vector<T> halves_of(int rank) {
  std::vector<T> values(kCount);
  const std::vector<float> wide = values_of(rank);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = kokkos::detail::rounded<T>(wide[i]);
  return values;
}
template <class T>
bool is_same(const Array<T>& view, const std::vector<T>& values) {
  return view.extent(0) == values.size() &&
         std::memcmp(view.data(), values.data(), values.size() * sizeof(T)) == 0;
}

TYPED_TEST(CallsOfHalves, AreThoseOfSpans) {
  using T = TypeParam;
  on_ranks(2, [](Comm& comm) {
    const Space space;
    const std::vector<T> sent = halves_of<T>(comm.rank()), base = halves_of<T>(5);
    const Array<T> from = to_view(sent), held = to_view(base);
    std::vector<T> expected = base;
    Array<T> received = to_view(base);
    const Mask mask = Mask::random(kCount, 0.1, 5);
    comm.all_reduce_masked<T>(sent, expected, mask);
    kokkos::all_reduce_masked(space, comm, from, received, mask);
    EXPECT_TRUE(is_same(received, expected));

    Feedback feedback(kCount, kokkos::data_type<T>()), own(kCount, kokkos::data_type<const T>());
    for (int step = 0; step < 2; ++step) {
      comm.all_reduce_top_k<T>(sent, expected, 100, &feedback);
      kokkos::all_reduce_top_k(space, comm, from, received, 100, &own);
      EXPECT_TRUE(is_same(received, expected));
    }

    const Array<T> weights = to_view(comm.rank() == 0 ? sent : base);
    kokkos::broadcast_delta(space, comm, weights, held, 0);
    EXPECT_TRUE(is_same(weights, halves_of<T>(0)));

    Indices indices("indices", 2), places("places", 4);
    indices(0) = 7;
    indices(1) = 10 + static_cast<std::uint64_t>(comm.rank());
    Array<T> sums("sums", 4);
    ASSERT_EQ(kokkos::all_reduce_sparse(space, comm, from, indices, 2, kCount, sums, places), 3U);
    std::vector<T> union_values;
    std::vector<std::uint64_t> union_indices;
    union_values.reserve(4);
    union_indices.reserve(4);
    comm.all_reduce_sparse<T>(std::span<const T>(sent).first(2), to_vector(indices), kCount,
                              union_values, union_indices);
    EXPECT_EQ(to_vector(places, 3), union_indices);
    EXPECT_TRUE(is_same(Array<T>(Kokkos::subview(sums, std::pair<std::size_t, std::size_t>(0, 3))),
                        union_values));
  });
}

TEST(KokkosCalls, DataTypes) {
  EXPECT_EQ(kokkos::data_type<const float>(), sparclFloat32);
  EXPECT_EQ(kokkos::data_type<std::int16_t>(), sparclInt16);
  EXPECT_EQ(kokkos::data_type<bfloat16>(), sparclBfloat16);
  EXPECT_EQ(kokkos::data_type<Kokkos::Experimental::half_t>(),
            sizeof(Kokkos::Experimental::half_t) == 2 ? sparclFloat16 : sparclFloat32);
}

// What is done where the host cannot reach a view, and the C calls do not take its memory.
TEST(KokkosCalls, ElementsOutOfReachAreCopiedAndGivenBack) {
  const Space space;
  const Array<float> view = to_view(values_of(2));
  const kokkos::detail::Argument<Space, Array<float>, kokkos::detail::Access::kCopy> argument(space,
                                                                                              view);
  ASSERT_EQ(argument.count(), kCount);
  EXPECT_EQ(argument.stream(), nullptr);
  EXPECT_NE(argument.data(), view.data());
  EXPECT_EQ(argument.data()[5], values_of(2)[5]);
  argument.data()[5] = 8;
  argument.data()[6] = 9;
  EXPECT_NE(to_vector(view)[5], 8);
  argument.give_back(6);
  EXPECT_EQ(to_vector(view)[5], 8);
  EXPECT_EQ(to_vector(view)[6], values_of(2)[6]);
  argument.give_back();
  EXPECT_EQ(to_vector(view)[6], 9);
}

}  // namespace
}  // namespace sparcl::test
