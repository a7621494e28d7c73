// What goes wrong in broadcasts of arrays in device memory, and what is written then. Errors are
// those of the host's way.

#include <latch>
#include <thread>

#include "tests/fakes/nccl/broadcast_calls.hpp"
#include "tests/fakes/nccl/emulated_faults.hpp"

namespace sparcl::test {
namespace {

using testing::Each;
using testing::HasSubstr;

using DeviceBroadcastFailure = NcclRanks;

struct Outcome {
  std::vector<sparclResult_t> results;
  std::string text;
};

// Rank 1 holds something else. place: of all ranks but the root.
template <class Word>
Outcome broadcast_to_another(const std::vector<Word>& base, const std::vector<Word>& target,
                             const std::vector<Word>& other, const Place& place,
                             const std::vector<Word>& after) {
  ThreadRanks party(3);
  Outcome outcome;
  outcome.results = party.run([&](int rank, sparclComm_t comm) {
    const Place own = rank == 0 ? Place{} : place;
    const std::vector<Word>& held = rank == 0 ? target : rank == 1 ? other : base;
    Held<Word> weights(held, own), old(base, own);
    const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), base.size(),
                                                       sparclFloat32, 0, nullptr, comm, nullptr);
    EXPECT_TRUE(same(weights.read(), after.empty() ? held : after)) << "rank " << rank;
    return result;
  });
  outcome.text = sparclGetLastError(party.comm(2));
  return outcome;
}

TEST_F(DeviceBroadcastFailure, AWrongBaseIsTheHostsErrorAndNothingIsWritten) {
  const auto base = random_words<std::uint32_t>(3 * kBlock, 17), target = changed(base, 0.01, 18);
  for (const char* level : {"touched", "full"}) {
    const Verifying verifying(level);
    auto other = base;
    std::size_t at = 2 * kBlock;
    while (base[at] == target[at]) ++at;
    other[at] += 12;
    const Outcome found = broadcast_to_another(base, target, other, {}, {});
    const Outcome expected = broadcast_to_another(base, target, other, {false}, {});
    EXPECT_THAT(found.results, Each(sparclWrongBase));
    EXPECT_THAT(found.text, HasSubstr("block 2"));
    EXPECT_THAT(found.text, HasSubstr("rank 1"));
    EXPECT_EQ(found.text, expected.text);
  }
}

// A call that is made again: rank 1 has what it leads to.
TEST_F(DeviceBroadcastFailure, TheTargetMayBeHeldAlready) {
  const auto base = random_words<std::uint32_t>(kBlock + 5, 19), target = changed(base, 0.01, 20);
  for (const char* level : {"touched", "full"}) {
    const Verifying verifying(level);
    EXPECT_THAT(broadcast_to_another(base, target, target, {}, target).results,
                Each(sparclSuccess));
  }
}

// Wherever it does: one error on all ranks and nothing is written; or, once all have voted, the
// communicator ends.
void expect_named_errors(void (*fail_from)(int), const char* text, int min_refused) {
  const auto base = random_words<std::uint32_t>(2'000, 30), target = changed(base, 0.05, 31);
  bool has_succeeded = false;
  int refused = 0, poisoned = 0;
  for (int failing = 0; !has_succeeded && failing < 40; ++failing) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    ThreadRanks party(2);
    std::vector<std::vector<std::uint32_t>> held(2);
    fail_from(failing);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      Held<std::uint32_t> weights(rank == 0 ? target : base, {}), old(base, {});
      const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), base.size(),
                                                         sparclFloat32, 0, nullptr, comm, nullptr);
      held[static_cast<std::size_t>(rank)] = weights.read();
      return result;
    });
    fail_from(-1);
    has_succeeded = results[0] == sparclSuccess && results[1] == sparclSuccess;
    if (has_succeeded) {
      EXPECT_TRUE(same(held[1], target));
    } else if (results[1] == sparclUnhandledCudaError) {
      EXPECT_EQ(results[0], sparclUnhandledCudaError);
      EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr(text));
      EXPECT_TRUE(same(held[1], base));
      ++refused;
    } else {
      EXPECT_NE(results[1], sparclSuccess);
      ++poisoned;
    }
  }
  EXPECT_TRUE(has_succeeded);
  EXPECT_GE(refused, min_refused);
  EXPECT_GE(poisoned, 1);
}

TEST_F(DeviceBroadcastFailure, ADriverThatFails) {
  expect_named_errors(fail_copies_from, "an illegal memory access was encountered", 4);
  expect_named_errors(fail_launches_from, "a kernel: CUresult 719", 3);
  expect_named_errors(fail_events_from, "recording an event: unspecified launch failure", 3);
}

TEST_F(DeviceBroadcastFailure, ACaptureIsRefusedAsBefore) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint32_t>(100, 32), target = changed(base, 0.5, 33);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint32_t> weights(rank == 0 ? target : base, {}), old(base, {});
    if (rank == 1) begin_capture(stream_of(rank));
    const sparclResult_t result = sparclBroadcastDelta(weights.get(), old.get(), 100, sparclFloat32,
                                                       0, nullptr, comm, stream_of(rank));
    if (rank == 1) {
      EXPECT_EQ(end_capture(stream_of(rank)), nullptr);
      EXPECT_TRUE(same(weights.read(), base));
    }
    return result;
  });
  EXPECT_THAT(results, Each(sparclUnhandledCudaError));
}

// A rank that waits for its GPU is still one of the others'.
TEST_F(DeviceBroadcastFailure, AnAbortReachesTheOthersWhileAGpuIsBusy) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint32_t>(1'000, 36), target = changed(base, 0.1, 37);
  const sparclStream_t busy = stream_of(1);
  std::latch other_is_told(1);
  enqueue(busy, [&] { other_is_told.wait(); });
  std::jthread aborting([&] {
    while (copies_in_stream(busy) == 0) std::this_thread::yield();
    EXPECT_EQ(sparclCommAbort(party.comm(1)), sparclSuccess);
  });
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint32_t> weights(rank == 0 ? target : base, {}), old(base, {});
    const sparclResult_t result =
        sparclBroadcastDelta(weights.get(), old.get(), base.size(), sparclFloat32, 0, nullptr, comm,
                             rank == 1 ? busy : nullptr);
    if (rank == 0) other_is_told.count_down();
    EXPECT_TRUE(same(weights.read(), rank == 0 ? target : base));
    return result;
  }),
              Each(sparclRemoteError));
  EXPECT_THAT(last_error(party, 0), HasSubstr("sparclCommAbort was called"));
}

// Also where it needs a copy on the host, as the root's is there and codes as the device does not
// read.
TEST_F(DeviceBroadcastFailure, AnAbortReachesTheOthersWhileAnArrayIsCopied) {
  ThreadRanks party(2);
  const auto base = random_words<std::uint16_t>(kBlock, 44), target = changed(base, 0.0005, 45);
  stall(stream_of(1), 0);
  std::jthread aborting([&] {
    while (!is_stalled(stream_of(1))) std::this_thread::yield();
    EXPECT_EQ(sparclCommAbort(party.comm(1)), sparclSuccess);
  });
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    Held<std::uint16_t> weights(rank == 0 ? target : base, {rank == 1}), old(base, {rank == 1});
    const sparclResult_t result =
        sparclBroadcastDelta(weights.get(), old.get(), base.size(), sparclBfloat16, 0, nullptr,
                             comm, rank == 1 ? stream_of(1) : nullptr);
    if (rank == 0) go_on(stream_of(1));
    EXPECT_TRUE(same(weights.read(), rank == 0 ? target : base));
    return result;
  }),
              Each(sparclRemoteError));
}

// The host has the last word on a block.
TEST_F(DeviceBroadcastFailure, WhatTheDeviceAloneRefusesGoesByWayOfTheHost) {
  const auto base = random_words<std::uint32_t>(2'000, 46), target = changed(base, 0.05, 47);
  for (const char* level : {"touched", "full"}) {
    const Verifying verifying(level);
    ThreadRanks party(2);
    refuse_blocks(true);
    broadcast(party, sparclFloat32, base, target, 0, {{}}, true, Goes::kByHostLater);
    refuse_blocks(false);
  }
}

// All of an array, which a root reads piece by piece and others write at the commit.
TEST_F(DeviceBroadcastFailure, ADriverThatFailsInTheMiddle) {
  const auto base = random_words<std::uint64_t>(9 * kBlock, 38),
             target = random_words<std::uint64_t>(9 * kBlock, 39);
  for (const int failing : {0, 1, 2, 5}) {
    SCOPED_TRACE(testing::Message() << "from copy " << failing);
    ThreadRanks party(2);
    fail_copies_from(failing);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      Held<std::uint64_t> weights(rank == 0 ? target : base, {});
      const sparclResult_t result = sparclBroadcastDelta(weights.get(), nullptr, base.size(),
                                                         sparclFloat64, 0, nullptr, comm, nullptr);
      EXPECT_TRUE(failing >= 2 || same(weights.read(), rank == 0 ? target : base))
          << "rank " << rank;
      return result;
    });
    fail_copies_from(-1);
    if (failing < 2) {
      EXPECT_THAT(results, Each(sparclUnhandledCudaError));
    } else {
      EXPECT_EQ(results[1], sparclRemoteError) << "the root has committed";
    }
  }
}

TEST_F(DeviceBroadcastFailure, MemoryIsGivenBack) {
  const int before = allocations_alive();
  {
    ThreadRanks party(2);
    const auto base = random_words<std::uint32_t>(100, 34);
    broadcast(party, sparclFloat32, base, changed(base, 0.5, 35), 0, {{}});
    EXPECT_EQ(allocations_alive(), before + 4) << "each rank's, on the device and pinned";
  }
  EXPECT_EQ(allocations_alive(), before);
}

}  // namespace
}  // namespace sparcl::test
