// sparcl's calls on Kokkos views give what they give on spans, in the order of the execution space.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "sparcl/sparcl_kokkos.hpp"
#include "tests/kokkos/views.hpp"

namespace sparcl::test {
namespace {

constexpr std::size_t kCount = 10'000;

// Each rank in a thread of its own.
void on_ranks(int ranks, const std::function<void(Comm&)>& body) {
  std::vector<Comm> comms = Comm::local(ranks);
  std::vector<std::thread> threads;
  for (Comm& comm : comms) threads.emplace_back([&comm, &body] { body(comm); });
  for (std::thread& thread : threads) thread.join();
}

std::vector<float> values_of(int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = std::sin(static_cast<float>(i * (static_cast<std::size_t>(rank) + 3)));
  return values;
}

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
      kokkos::all_reduce_top_k(Space(), comm, Kokkos::View<const float*, Space>(from), received, 100, &own);
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
    const Array<float> residual("residual", kCount), taken("taken", k), sums("sums", 2 * k), received("received", kCount);
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
      const std::size_t entries =
          kokkos::all_reduce_sparse(space, comm, taken, chosen, kokkos::wait_for(space, count), kCount, sums, found_at);
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

// What is done where the host cannot reach a view.
TEST(KokkosCalls, ElementsOutOfReachAreCopiedAndGivenBack) {
  const Space space;
  const Array<float> view = to_view(values_of(2));
  const kokkos::detail::HostElements<Array<float>, false> elements(space, view);
  ASSERT_EQ(elements.span().size(), kCount);
  EXPECT_NE(elements.span().data(), view.data());
  EXPECT_EQ(elements.span()[5], values_of(2)[5]);
  elements.span()[5] = 8;
  EXPECT_NE(to_vector(view)[5], 8);
  elements.give_back(space);
  EXPECT_EQ(to_vector(view)[5], 8);
}

}  // namespace
}  // namespace sparcl::test
