// Broadcasts of device arrays whose stream is stuck: in a kernel that does not end, wherever the
// call has come meanwhile.

#include <thread>

#include "tests/fakes/nccl/broadcast_calls.hpp"

namespace sparcl::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;

using DeviceStuckStream = NcclRanks;

constexpr sparclDataType_t kType = sparclBfloat16;

// What is broadcast from the first of two ranks, each with its arrays on the device or not.
struct Case {
  double density;
  bool has_base = true;
  std::vector<Place> places = {{}};
  std::vector<std::uint16_t> base = random_words<std::uint16_t>(kBlock + 50, 50);
  std::vector<std::uint16_t> target = changed(base, density, 51);

  Place place(int rank) const { return places[static_cast<std::size_t>(rank) % places.size()]; }
  sparclResult_t call(int rank, sparclComm_t comm, sparclStream_t stream) const {
    Held<std::uint16_t> weights(rank == 0 ? target : base, place(rank)), old(base, place(rank));
    return sparclBroadcastDelta(weights.get(), has_base ? old.get() : nullptr, base.size(), kType,
                                0, nullptr, comm, place(rank).on_device ? stream : nullptr);
  }
};

const Case& with_changes() {
  static const Case made{0.05};
  return made;
}
const Case& with_all() {
  static const Case made{0.05, false};
  return made;
}
// The receiver goes by way of the host.
const Case& from_the_host() {
  static const Case made{0.0005, true, {{false}, {}}};
  return made;
}

// Both ranks call; `stuck` is to be stuck after so many things in its stream. False: there were not
// so many.
template <class Then>
bool is_stuck_after(ThreadRanks& party, const Case& each, int stuck, int things, const Then& then,
                    std::vector<sparclResult_t>& results) {
  std::atomic<bool> is_over = false, has_come = false;
  stall(stream_of(stuck), things);
  std::jthread other([&] {
    while (!is_over && !is_stalled(stream_of(stuck))) std::this_thread::yield();
    has_come = is_stalled(stream_of(stuck));
    if (has_come) then();
  });
  results = party.run(
      [&](int rank, sparclComm_t comm) { return each.call(rank, comm, stream_of(rank)); });
  is_over = true;
  other.join();
  return has_come;
}

// Nothing is written where the others still vote; a root may have committed where its receiver is
// at that.
void expect_ends(const std::vector<sparclResult_t>& results, int stuck, sparclResult_t with) {
  EXPECT_EQ(results[static_cast<std::size_t>(stuck)], with);
  EXPECT_THAT(results[static_cast<std::size_t>(1 - stuck)], AnyOf(with, sparclSuccess));
}

int abort_everywhere(const Case& each, int stuck) {
  for (int things = 0;; ++things) {
    SCOPED_TRACE(testing::Message() << "rank " << stuck << ", " << things << " things");
    ThreadRanks party(2);
    std::vector<sparclResult_t> results;
    const auto abort = [&] { EXPECT_EQ(sparclCommAbort(party.comm(stuck)), sparclSuccess); };
    const bool was_stuck = is_stuck_after(party, each, stuck, things, abort, results);
    go_on(stream_of(stuck));
    if (!was_stuck) {
      EXPECT_THAT(results, Each(sparclSuccess));
      return things;
    }
    expect_ends(results, stuck, sparclRemoteError);
  }
}

TEST_F(DeviceStuckStream, AnAbortEndsTheCall) {
  EXPECT_GE(abort_everywhere(with_changes(), 0), 4);
  EXPECT_GE(abort_everywhere(with_changes(), 1), 6);
  EXPECT_GE(abort_everywhere(with_all(), 0), 1);
  EXPECT_GE(abort_everywhere(with_all(), 1), 2);
  EXPECT_GE(abort_everywhere(from_the_host(), 1), 2);
}

// As with a peer that does not answer, but it says what it was.
TEST_F(DeviceStuckStream, ATimeoutNamesTheStream) {
  const Setting timeout("SPARCL_TIMEOUT_S", "0.4");
  for (const auto& [each, stuck, things] : {std::tuple{&with_changes(), 0, 0},
                                            {&with_changes(), 1, 2},
                                            {&with_all(), 0, 0},
                                            {&with_changes(), 1, 4},
                                            {&from_the_host(), 1, 0},
                                            {&from_the_host(), 1, 2}}) {
    SCOPED_TRACE(testing::Message() << "rank " << stuck << ", " << things << " things");
    ThreadRanks party(2);
    std::vector<sparclResult_t> results;
    EXPECT_TRUE(is_stuck_after(
        party, *each, stuck, things, [] {}, results));
    expect_ends(results, stuck, sparclTimeout);
    EXPECT_THAT(last_error(party, stuck),
                AllOf(HasSubstr("has waited 0.3 s for the stream of its call"),
                      HasSubstr("SPARCL_TIMEOUT_S")));
    EXPECT_EQ(with_all().call(stuck, party.comm(stuck), nullptr), sparclTimeout)
        << "there is no communicator any more";
    go_on(stream_of(stuck));
  }
}

// What a stream may still use is no one's, also where the communicator is gone; what it uses no
// more is given back.
TEST_F(DeviceStuckStream, MemoryIsKeptAsLongAsItIsUsed) {
  for (const bool is_for_good : {false, true}) {
    const int before = allocations_alive();
    {
      ThreadRanks party(2);
      std::vector<sparclResult_t> results;
      const auto abort = [&] { EXPECT_EQ(sparclCommAbort(party.comm(1)), sparclSuccess); };
      ASSERT_TRUE(is_stuck_after(party, with_changes(), 1, 1, abort, results));
      EXPECT_EQ(allocations_alive(), before + 4) << "of each rank, on the device and pinned";
      if (!is_for_good) go_on(stream_of(1));
    }
    EXPECT_EQ(allocations_alive(), before + (is_for_good ? 2 : 0));
    go_on(stream_of(1));
  }
}

// A call that another rank refuses is over with its stream: that one is busy, not stuck.
TEST_F(DeviceStuckStream, ABusyStreamIsWaitedForWhereTheCommunicatorGoesOn) {
  ThreadRanks party(2);
  stall(stream_of(0), 0);
  EXPECT_THAT(party.run([&](int rank, sparclComm_t comm) {
    if (rank == 0) return with_changes().call(rank, comm, stream_of(rank));
    const sparclResult_t refused =
        sparclBroadcastDelta(nullptr, nullptr, kBlock + 50, kType, 0, nullptr, comm, nullptr);
    go_on(stream_of(0));
    return refused;
  }),
              Each(sparclInvalidArgument));
  EXPECT_THAT(party.run([](int rank, sparclComm_t comm) {
    return with_changes().call(rank, comm, stream_of(rank));
  }),
              Each(sparclSuccess));
}

}  // namespace
}  // namespace sparcl::test
