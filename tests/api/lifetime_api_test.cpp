// Objects may end in any order: handles are checked, and what is wrong with one is named as what it
// is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string last_text() { return sparclGetLastError(nullptr); }

// One handle of each kind, all of them sound.
struct Handles {
  Handles() {
    weights.assign(8, 1.0F);
    EXPECT_EQ(sparclCommInitLocal(&comm, 1), sparclSuccess);
    EXPECT_EQ(sparclMaskCreateRandom(&mask, 8, 0.5, 1), sparclSuccess);
    EXPECT_EQ(sparclFeedbackCreate(&feedback, 8, sparclFloat32), sparclSuccess);
    EXPECT_EQ(sparclStateCreate(&state), sparclSuccess);
    const std::uint64_t shape[] = {8};
    EXPECT_EQ(sparclStateAdd(state, "w", weights.data(), sparclFloat32, 1, shape), sparclSuccess);
    EXPECT_EQ(sparclStateCreate(&replica), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(replica, "w", copy.data(), sparclFloat32, 1, shape), sparclSuccess);
    EXPECT_EQ(sparclPublisherCreate(&publisher, state, nullptr), sparclSuccess) << last_text();
    char address[128];
    EXPECT_EQ(sparclPublisherAddress(publisher, address, sizeof address), sparclSuccess);
    EXPECT_EQ(sparclSubscriberCreate(&subscriber, replica, address, nullptr), sparclSuccess)
        << last_text();
  }

  // The functions that take a handle of one kind, each with sound arguments.
  using Calls = std::vector<std::pair<const char*, std::function<sparclResult_t()>>>;
  Calls comm_calls(sparclComm_t given) {
    return {
        {"sparclCommCount", [=, this] { return sparclCommCount(given, &number); }},
        {"sparclCommUserRank", [=, this] { return sparclCommUserRank(given, &number); }},
        {"sparclCommGetAsyncError", [=, this] { return sparclCommGetAsyncError(given, &result); }},
        {"sparclCommGetFailedRank", [=, this] { return sparclCommGetFailedRank(given, &number); }},
        {"sparclCommAbort", [=] { return sparclCommAbort(given); }},
        {"sparclCommRefuse", [=] { return sparclCommRefuse(given, "why"); }},
        {"sparclCommShrink", [=, this] { return sparclCommShrink(given, &other); }},
        {"sparclCommUseNccl", [=] { return sparclCommUseNccl(given, nullptr); }},
        {"sparclCommStreamSynchronize",
         [=] { return sparclCommStreamSynchronize(given, nullptr); }},
        {"sparclCommLastReport", [=, this] { return sparclCommLastReport(given, &report); }},
        {"sparclBroadcastDelta",
         [=, this] {
           return sparclBroadcastDelta(weights.data(), nullptr, 8, sparclFloat32, 0, nullptr, given,
                                       nullptr);
         }},
        {"sparclIBroadcastDelta",
         [=, this] {
           return sparclIBroadcastDelta(weights.data(), nullptr, 8, sparclFloat32, 0, nullptr,
                                        given, nullptr, &request);
         }},
        {"sparclBroadcastUpdate",
         [=, this] { return sparclBroadcastUpdate(state, 1, 0, nullptr, given, nullptr); }},
        {"sparclAllReduceMasked",
         [=, this] {
           return sparclAllReduceMasked(weights.data(), weights.data(), 8, sparclFloat32, sparclSum,
                                        mask, nullptr, nullptr, given, nullptr);
         }},
        {"sparclAllReduceTopK",
         [=, this] {
           return sparclAllReduceTopK(weights.data(), weights.data(), 8, 1, sparclFloat32,
                                      sparclSum, nullptr, nullptr, given, nullptr);
         }},
        {"sparclCommDestroy", [=] { return sparclCommDestroy(given); }},
    };
  }
  Calls state_calls(sparclState_t given) {
    const auto shape = std::make_shared<std::uint64_t>(1);
    return {
        {"sparclStateAdd",
         [=, this] { return sparclStateAdd(given, "x", &value, sparclFloat32, 1, shape.get()); }},
        {"sparclStateAddMaster",
         [=, this] {
           return sparclStateAddMaster(given, "x", &value, sparclBfloat16, 1, shape.get());
         }},
        {"sparclStateMarkIndices",
         [=] { return sparclStateMarkIndices(given, "w", shape.get(), 1); }},
        {"sparclStateMarkBlocks",
         [=] { return sparclStateMarkBlocks(given, "w", shape.get(), 8); }},
        {"sparclStateSetTrainable", [=] { return sparclStateSetTrainable(given, "w", 1); }},
        {"sparclStateSetPriority", [=] { return sparclStateSetPriority(given, "w", 1); }},
        {"sparclStateVersion", [=, this] { return sparclStateVersion(given, &version); }},
        {"sparclStateHash", [=, this] { return sparclStateHash(given, hash); }},
        {"sparclBroadcastUpdate",
         [=, this] { return sparclBroadcastUpdate(given, 1, 0, nullptr, comm, nullptr); }},
        {"sparclPublisherCreate",
         [=, this] { return sparclPublisherCreate(&second, given, nullptr); }},
        {"sparclSubscriberCreate",
         [=, this] { return sparclSubscriberCreate(&third, given, "127.0.0.1:1", nullptr); }},
        {"sparclStateDestroy", [=] { return sparclStateDestroy(given); }},
    };
  }
  Calls mask_calls(sparclMask_t given) {
    return {
        {"sparclMaskSetStep", [=] { return sparclMaskSetStep(given, 1); }},
        {"sparclMaskGetIndices",
         [=, this] { return sparclMaskGetIndices(given, nullptr, 0, &count); }},
        {"sparclAllReduceMasked",
         [=, this] {
           return sparclAllReduceMasked(weights.data(), weights.data(), 8, sparclFloat32, sparclSum,
                                        given, nullptr, nullptr, comm, nullptr);
         }},
        {"sparclMaskDestroy", [=] { return sparclMaskDestroy(given); }},
    };
  }
  Calls feedback_calls(sparclFeedback_t given) {
    return {
        {"sparclFeedbackSave", [=] { return sparclFeedbackSave(given, "/nonexistent/feedback"); }},
        {"sparclFeedbackReset", [=] { return sparclFeedbackReset(given); }},
        {"sparclFeedbackStats", [=, this] { return sparclFeedbackStats(given, &stats); }},
        {"sparclFeedbackGetResidual",
         [=, this] { return sparclFeedbackGetResidual(given, &data, nullptr, nullptr); }},
        {"sparclAllReduceTopK",
         [=, this] {
           return sparclAllReduceTopK(weights.data(), weights.data(), 8, 1, sparclFloat32,
                                      sparclSum, given, nullptr, comm, nullptr);
         }},
        {"sparclAllReduceMasked",
         [=, this] {
           return sparclAllReduceMasked(weights.data(), weights.data(), 8, sparclFloat32, sparclSum,
                                        mask, given, nullptr, comm, nullptr);
         }},
        {"sparclFeedbackDestroy", [=] { return sparclFeedbackDestroy(given); }},
    };
  }
  Calls publisher_calls(sparclPublisher_t given) {
    return {
        {"sparclPublisherAddress",
         [=, this] { return sparclPublisherAddress(given, text, sizeof text); }},
        {"sparclPublish", [=] { return sparclPublish(given, 1); }},
        {"sparclPublisherWait", [=] { return sparclPublisherWait(given, 1, 0, 0); }},
        {"sparclPublisherCount",
         [=, this] { return sparclPublisherCount(given, 1, &number, nullptr); }},
        {"sparclPublisherLastReport",
         [=, this] { return sparclPublisherLastReport(given, &report); }},
        {"sparclPublisherWaitStored", [=] { return sparclPublisherWaitStored(given, 1, 0); }},
        {"sparclPublisherDestroy", [=] { return sparclPublisherDestroy(given); }},
    };
  }
  Calls subscriber_calls(sparclSubscriber_t given) {
    return {
        {"sparclSubscriberNext", [=, this] { return sparclSubscriberNext(given, 0, &version); }},
        {"sparclSubscriberTensor", [=, this] { return sparclSubscriberTensor(given, 0, &data); }},
        {"sparclSubscriberVersion",
         [=, this] { return sparclSubscriberVersion(given, &version, nullptr); }},
        {"sparclSubscriberPin", [=] { return sparclSubscriberPin(given, 0); }},
        {"sparclSubscriberDestroy", [=] { return sparclSubscriberDestroy(given); }},
    };
  }

  std::vector<float> weights;
  std::array<float, 8> copy{};
  sparclComm_t comm = nullptr, other = nullptr;
  sparclMask_t mask = nullptr;
  sparclFeedback_t feedback = nullptr;
  sparclState_t state = nullptr, replica = nullptr;
  sparclPublisher_t publisher = nullptr, second = nullptr;
  sparclSubscriber_t subscriber = nullptr, third = nullptr;
  sparclRequest_t request = nullptr;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
  sparclResult_t result = sparclSuccess;
  const void* data = nullptr;
  std::size_t count = 0;
  std::uint64_t version = 0;
  std::uint8_t hash[16] = {};
  float value = 0;
  int number = 0;
  char text[128] = {};

  void end() {
    EXPECT_EQ(sparclPublisherDestroy(publisher), sparclSuccess);
    EXPECT_EQ(sparclSubscriberDestroy(subscriber), sparclSuccess);
    EXPECT_EQ(sparclStateDestroy(state), sparclSuccess) << last_text();
    EXPECT_EQ(sparclStateDestroy(replica), sparclSuccess) << last_text();
    EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclSuccess);
    EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
  }
};

void expect_each(const Handles::Calls& calls, sparclResult_t expected, const std::string& says) {
  for (const auto& [name, call] : calls) {
    EXPECT_EQ(call(), expected) << name << ": " << last_text();
    EXPECT_THAT(last_text(), AllOf(HasSubstr(std::string(name) + ": "), HasSubstr(says)));
  }
}

TEST(Lifetime, AHandleThatHasEndedIsNamedAsThat) {
  Handles own, ended;
  ended.end();
  const std::string says = " has ended already, by sparcl";
  expect_each(own.comm_calls(ended.comm), sparclInvalidUsage, "comm" + says + "CommDestroy");
  expect_each(own.state_calls(ended.state), sparclInvalidUsage, "state" + says + "StateDestroy");
  expect_each(own.mask_calls(ended.mask), sparclInvalidUsage, "mask" + says + "MaskDestroy");
  expect_each(own.feedback_calls(ended.feedback), sparclInvalidUsage,
              "feedback" + says + "FeedbackDestroy");
  expect_each(own.publisher_calls(ended.publisher), sparclInvalidUsage,
              "publisher" + says + "PublisherDestroy");
  expect_each(own.subscriber_calls(ended.subscriber), sparclInvalidUsage,
              "subscriber" + says + "SubscriberDestroy");
  own.end();
}

TEST(Lifetime, AHandleOfAnotherKindIsNamedAsThat) {
  Handles own;
  const auto as = []<class Handle>(Handle, auto given) { return reinterpret_cast<Handle>(given); };
  expect_each(own.comm_calls(as(sparclComm_t(), own.mask)), sparclInvalidArgument,
              "comm is a sparclMask_t: expected a sparclComm_t");
  expect_each(own.state_calls(as(sparclState_t(), own.comm)), sparclInvalidArgument,
              "state is a sparclComm_t");
  expect_each(own.mask_calls(as(sparclMask_t(), own.feedback)), sparclInvalidArgument,
              "mask is a sparclFeedback_t");
  expect_each(own.feedback_calls(as(sparclFeedback_t(), own.state)), sparclInvalidArgument,
              "feedback is a sparclState_t");
  expect_each(own.publisher_calls(as(sparclPublisher_t(), own.subscriber)), sparclInvalidArgument,
              "publisher is a sparclSubscriber_t");
  expect_each(own.subscriber_calls(as(sparclSubscriber_t(), own.publisher)), sparclInvalidArgument,
              "subscriber is a sparclPublisher_t");
  auto request = as(sparclRequest_t(), own.comm);
  EXPECT_EQ(sparclWait(&request, nullptr), sparclInvalidArgument);
  EXPECT_THAT(last_text(), StartsWith("sparclWait: request is a sparclComm_t"));
  own.end();
}

TEST(Lifetime, WhatIsNoHandleIsNamedAsThat) {
  Handles own;
  const std::vector<std::uintptr_t> none{
      0x1234, reinterpret_cast<std::uintptr_t>(&own), UINTPTR_MAX, 0x8000'0FFF'FFF0'00A5,
      reinterpret_cast<std::uintptr_t>(own.mask) + (std::uintptr_t{1} << 36)};
  for (const std::uintptr_t bits : none) {
    expect_each(own.comm_calls(reinterpret_cast<sparclComm_t>(bits)), sparclInvalidArgument,
                "comm is 0x");
    expect_each(own.mask_calls(reinterpret_cast<sparclMask_t>(bits)), sparclInvalidArgument,
                "which is no handle");
    auto request = reinterpret_cast<sparclRequest_t>(bits);
    int done = 7;
    EXPECT_EQ(sparclTest(&request, &done, nullptr), sparclInvalidArgument);
    EXPECT_THAT(last_text(), StartsWith("sparclTest: request is 0x"));
    EXPECT_NE(sparclGetLastError(reinterpret_cast<sparclComm_t>(bits)), nullptr);
  }
  own.end();
}

TEST(Lifetime, ManyHandlesOfOneSlotAreToldApart) {
  std::vector<sparclMask_t> ended;
  for (int i = 0; i < 3000; ++i) {
    sparclMask_t mask = nullptr;
    ASSERT_EQ(sparclMaskCreateRandom(&mask, 8, 0.5, 1), sparclSuccess);
    if (i > 0) {
      ASSERT_EQ(sparclMaskSetStep(ended.front(), 1), sparclInvalidUsage);
      ASSERT_EQ(sparclMaskSetStep(ended.back(), 1), sparclInvalidUsage);
    }
    ASSERT_EQ(sparclMaskSetStep(mask, 1), sparclSuccess);
    ASSERT_EQ(sparclMaskDestroy(mask), sparclSuccess);
    ended.push_back(mask);
  }
}

TEST(Lifetime, ARequestThatOutlivesItsCommGivesTheErrorAndEnds) {
  std::vector<sparclComm_t> comms(2);
  ASSERT_EQ(sparclCommInitLocal(comms.data(), 2), sparclSuccess);
  std::vector<float> weights(1000, 3);
  sparclRequest_t request = nullptr;
  ASSERT_EQ(sparclIBroadcastDelta(weights.data(), nullptr, 1000, sparclFloat32, 0, nullptr,
                                  comms[0], nullptr, &request),
            sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comms[0]), sparclSuccess);
  sparclRequest_t copy = request;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclWait(&request, &report), sparclRemoteError);
  EXPECT_THAT(last_text(),
              AllOf(StartsWith("rank 0: "),
                    HasSubstr("the communicator was destroyed with requests in flight")));
  EXPECT_EQ(request, nullptr);
  EXPECT_EQ(report.applied, 0);
  int done = 0;
  EXPECT_EQ(sparclTest(&copy, &done, nullptr), sparclInvalidUsage);
  EXPECT_THAT(last_text(), HasSubstr("request has ended already, by sparclWait or sparclTest"));
  EXPECT_EQ(sparclCommDestroy(comms[1]), sparclSuccess);
}

TEST(Lifetime, ARequestThatWasDoneBeforeItsCommEndedHasSucceeded) {
  sparclComm_t comm = nullptr;
  ASSERT_EQ(sparclCommInitLocal(&comm, 1), sparclSuccess);
  float value = 2;
  sparclRequest_t request = nullptr;
  ASSERT_EQ(
      sparclIBroadcastDelta(&value, nullptr, 1, sparclFloat32, 0, nullptr, comm, nullptr, &request),
      sparclSuccess);
  EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
  int done = 0;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  const sparclResult_t result = sparclTest(&request, &done, &report);
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(result == sparclSuccess || result == sparclRemoteError) << last_text();
  EXPECT_EQ(report.applied, result == sparclSuccess ? 1 : 0);
}

TEST(Lifetime, WhatACallInFlightUsesCannotBeDestroyedAndCanBeOnceTheCommIs) {
  std::vector<sparclComm_t> comms(2);
  ASSERT_EQ(sparclCommInitLocal(comms.data(), 2), sparclSuccess);
  std::vector<float> data(8, 1), other(8, 1), model(8, 1);
  sparclMask_t mask = nullptr;
  sparclFeedback_t feedback = nullptr, largest = nullptr;
  sparclState_t state = nullptr;
  const std::uint64_t shape[] = {8};
  ASSERT_EQ(sparclMaskCreateRandom(&mask, 8, 0.5, 1), sparclSuccess);
  ASSERT_EQ(sparclFeedbackCreate(&feedback, 8, sparclFloat32), sparclSuccess);
  ASSERT_EQ(sparclFeedbackCreate(&largest, 8, sparclFloat32), sparclSuccess);
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  ASSERT_EQ(sparclStateAdd(state, "w", model.data(), sparclFloat32, 1, shape), sparclSuccess);
  std::array<sparclRequest_t, 3> requests{};
  const sparclComm_t comm = comms[0];
  ASSERT_EQ(sparclIAllReduceMasked(data.data(), data.data(), 8, sparclFloat32, sparclSum, mask,
                                   feedback, nullptr, comm, nullptr, &requests[0]),
            sparclSuccess);
  ASSERT_EQ(sparclIAllReduceTopK(other.data(), other.data(), 8, 2, sparclFloat32, sparclSum,
                                 largest, nullptr, comm, nullptr, &requests[1]),
            sparclSuccess);
  ASSERT_EQ(sparclIBroadcastUpdate(state, 1, 0, nullptr, comm, nullptr, &requests[2]),
            sparclSuccess);
  EXPECT_EQ(sparclMaskDestroy(mask), sparclInvalidUsage);
  EXPECT_THAT(last_text(), HasSubstr("sparclMaskDestroy: a call with this mask is in flight"));
  EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclInvalidUsage);
  EXPECT_EQ(sparclFeedbackDestroy(largest), sparclInvalidUsage);
  EXPECT_EQ(sparclStateDestroy(state), sparclInvalidUsage);
  EXPECT_THAT(last_text(), HasSubstr("sparclStateDestroy: a broadcast of this state is in flight"));
  EXPECT_EQ(sparclCommDestroy(comm), sparclSuccess);
  EXPECT_EQ(sparclMaskDestroy(mask), sparclSuccess);
  EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclSuccess);
  EXPECT_EQ(sparclFeedbackDestroy(largest), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
  for (sparclRequest_t& request : requests)
    EXPECT_EQ(sparclWait(&request, nullptr), sparclRemoteError);
  EXPECT_EQ(sparclCommDestroy(comms[1]), sparclSuccess);
}

TEST(Lifetime, AnEndedMaskIsARefusalThatAllRanksAreTold) {
  ThreadRanks party(2);
  std::vector<sparclMask_t> masks(2);
  for (sparclMask_t& mask : masks)
    ASSERT_EQ(sparclMaskCreateRandom(&mask, 8, 0.5, 1), sparclSuccess);
  ASSERT_EQ(sparclMaskDestroy(masks[1]), sparclSuccess);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    std::vector<float> data(8, 1);
    const sparclResult_t result = sparclAllReduceMasked(
        data.data(), data.data(), 8, sparclFloat32, sparclSum,
        masks[static_cast<std::size_t>(rank)], nullptr, nullptr, comm, nullptr);
    EXPECT_THAT(last_text(), HasSubstr("mask has ended already, by sparclMaskDestroy"));
    return result;
  });
  EXPECT_THAT(results, Each(sparclInvalidUsage));
  EXPECT_EQ(sparclMaskDestroy(masks[0]), sparclSuccess);
}

TEST(Lifetime, ACommThatAnotherThreadWaitsInIsNotDestroyed) {
  ThreadRanks party(2);
  std::vector<float> data(100, 1);
  sparclRequest_t request = nullptr;
  ASSERT_EQ(sparclIBroadcastDelta(data.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                  party.comm(0), nullptr, &request),
            sparclSuccess);
  sparclRequest_t copy = request;
  std::thread waiting([&] {
    sparclResult_t result = sparclInvalidUsage;  // while the other thread asks for the report
    while (result == sparclInvalidUsage) result = sparclWait(&request, nullptr);
    EXPECT_EQ(result, sparclSuccess);
  });
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  while (sparclCommLastReport(party.comm(0), &report) == sparclSuccess)
    std::this_thread::yield();  // until it is in the call
  EXPECT_EQ(sparclWait(&copy, nullptr), sparclInvalidUsage);
  EXPECT_THAT(last_text(),
              HasSubstr("sparclWait: another thread is in a call of this communicator"));
  EXPECT_EQ(sparclCommDestroy(party.comm(0)), sparclInvalidUsage);
  std::vector<float> other(100, 0);
  EXPECT_EQ(sparclBroadcastDelta(other.data(), nullptr, 100, sparclFloat32, 0, nullptr,
                                 party.comm(1), nullptr),
            sparclSuccess);
  waiting.join();
  EXPECT_EQ(sparclWait(&copy, nullptr), sparclInvalidUsage) << "it has ended";
}

// Each of them an object of its own, all ranks in one order.
struct Owned {
  explicit Owned(Comm given) : comm(std::move(given)) {
    state->add("w", weights, {100});
    masked = comm->start_all_reduce_masked(summed, summed, *mask, &*feedback);
    selected = comm->start_all_reduce_top_k(largest, largest, 3, &*residual);
    update = comm->start_broadcast_update(*state, 1, 0);
  }
  std::vector<float> weights = std::vector<float>(100, 1), summed = weights, largest = weights;
  std::optional<State> state{std::in_place};
  std::optional<Mask> mask = Mask::random(100, 0.5, 1);
  std::optional<Feedback> feedback = Feedback::of<float>(100), residual = Feedback::of<float>(100);
  std::optional<Comm> comm;
  std::optional<Request> masked, selected, update;

  void end(int which) {
    switch (which) {
      case 0:
        return comm.reset();
      case 1:
        return masked.reset();
      case 2:
        return selected.reset(), update.reset();
      case 3:
        return mask.reset(), state.reset();
      default:
        return feedback.reset(), residual.reset();
    }
  }
};

TEST(LifetimeInCpp, CommsRequestsStatesMasksAndFeedbacksEndInEveryOrder) {
  std::array<int, 5> order{};
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<Comm> comms = Comm::local(2);
    std::vector<std::thread> threads;
    for (Comm& comm : comms) {
      threads.emplace_back([&comm, order] {
        Owned own(std::move(comm));
        for (const int which : order) own.end(which);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(LifetimeInCpp, ARequestTellsThatItsCommWentFirst) {
  std::vector<Comm> comms = Comm::local(2);
  std::vector<float> weights(1000);
  Request request = comms[0].start_broadcast_delta(weights, {}, 0);
  comms.clear();
  try {
    request.wait();
    ADD_FAILURE() << "nobody else took part";
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclRemoteError);
    EXPECT_THAT(error.what(), HasSubstr("destroyed with requests in flight"));
  }
  EXPECT_NO_THROW(request.wait()) << "it is over";
}

TEST(LifetimeInCpp, APublisherAndASubscriberKeepTheirStates) {
  std::vector<float> source(100, 2), held(100, 0);
  auto state = std::make_unique<State>();
  auto replica = std::make_unique<State>();
  state->add("w", source, {100});
  replica->add("w", held, {100});
  Publisher publisher(*state);
  Subscriber subscriber(*replica, publisher.address());
  state.reset();
  replica.reset();
  publisher.publish(1);
  for (std::optional<std::uint64_t> version; !version;) version = subscriber.next(20);
  EXPECT_EQ(held[99], 2);
  State other;
  std::vector<float> more(7, 1);
  other.add("x", more, {7});
  publisher = Publisher(other);  // the one before ends first, then its state
  publisher.publish(1);
}

TEST(LifetimeInCpp, WhyNothingCameIsSaid) {
  std::vector<float> source(100, 2), held(100, 0);
  State state, replica;
  state.add("w", source, {100});
  replica.add("w", held, {100});
  Publisher publisher(state);
  Subscriber subscriber(replica, publisher.address());
  EXPECT_FALSE(subscriber.next(0.05));
  EXPECT_THAT(subscriber.reason(), StartsWith("sparclSubscriberNext: "))
      << "the text of the C call";
  publisher.publish(1);
  EXPECT_FALSE(publisher.wait(2, 1, 0.05));
  EXPECT_THAT(publisher.reason(), AllOf(StartsWith("sparclPublisherWait: "), HasSubstr("0 of 1")));
  while (!subscriber.next(20)) {
  }
  EXPECT_EQ(subscriber.reason(), "");
  EXPECT_TRUE(publisher.wait(1, 1, 60));
  EXPECT_EQ(publisher.reason(), "");
}

}  // namespace
}  // namespace sparcl::test
