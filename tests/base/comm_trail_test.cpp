#include "src/base/flight/comm_trail.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "src/base/flight/flight_text.hpp"
#include "src/base/process_info.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::flight {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CommTrailTest : public ::testing::Test {
 protected:
  void begin(std::uint32_t call, const char* operation = "BroadcastDelta") {
    writer_.begin(call, {.operation = operation,
                         .count = 10,
                         .version = 3,
                         .root = 1,
                         .datatype = 9,
                         .detail = "entries"});
  }
  RecordList records() const {
    RecordList list;
    collect(*trail_, list);
    return list;
  }
  Record record_of(std::uint32_t call) const {
    const RecordList list = records();
    for (std::size_t i = 0; i < list.count; ++i) {
      if (list.records[i].call == call) return list.records[i];
    }
    return {};
  }
  std::vector<std::string> lines(std::size_t most = kRecords) const {
    std::vector<std::string> texts;
    records().show(most, monotonic_ns(),
                   [&](const LineWriter& line) { texts.emplace_back(line.view()); });
    return texts;
  }

  std::unique_ptr<Trail> trail_ = std::make_unique<Trail>();
  CommTrail writer_{{.id = 7, .rank = 2, .size = 4, .transport = "loopback"}, *trail_};
};

TEST_F(CommTrailTest, HoldsWhatACallWas) {
  begin(5);
  EXPECT_EQ(record_of(5).state, RecordState::kRunning);
  writer_.end(5, Code::kSuccess, 100, 200);
  const Record record = record_of(5);
  EXPECT_EQ(record.state, RecordState::kDone);
  EXPECT_EQ(record.bytes_sent, 100u);
  EXPECT_EQ(record.bytes_received, 200u);
  EXPECT_LE(record.begin_ns, record.end_ns);
  EXPECT_THAT(
      lines().back(),
      AllOf(HasSubstr("call 5 BroadcastDelta, 10 bfloat16 entries, root 1, version 3: done in"),
            HasSubstr("sent 100, received 200 bytes")));
}

TEST_F(CommTrailTest, ItsHeadSaysWhoItIs) {
  const TrailHead head = trail_->head.held();
  EXPECT_EQ(head.comm, 7u);
  EXPECT_EQ(head.state, TrailState::kLive);
  LineWriter line;
  describe_trail(head, monotonic_ns(), line);
  EXPECT_THAT(std::string(line.view()), HasSubstr("comm 7: rank 2 of 4 over loopback, live"));
  writer_ = CommTrail();
  EXPECT_EQ(trail_->head.held().state, TrailState::kDestroyed);
  EXPECT_THAT(lines().back(), HasSubstr("CommDestroy"));
}

TEST_F(CommTrailTest, TheLastOnesStay) {
  constexpr std::uint32_t kCalls = 5 * kRecords + 3;
  for (std::uint32_t call = 0; call < kCalls; ++call) {
    begin(call);
    writer_.end(call, Code::kSuccess, 0, 0);
  }
  const RecordList list = records();
  ASSERT_EQ(list.count, kRecords);
  for (std::size_t i = 0; i < list.count; ++i)
    EXPECT_EQ(list.records[i].call, kCalls - kRecords + i);
}

TEST_F(CommTrailTest, ACallThatHangsIsNotOverwritten) {
  begin(0, "Stuck");
  for (std::uint32_t call = 1; call < 5 * kRecords; ++call) {
    begin(call);
    writer_.end(call, Code::kSuccess, 0, 0);
  }
  EXPECT_THAT(lines().front(), HasSubstr("call 0 Stuck"));
  EXPECT_EQ(records().count, kRecords);
  writer_.end(0, Code::kTimeout, 0, 0);
  EXPECT_EQ(record_of(0).state, RecordState::kFailed);
}

TEST_F(CommTrailTest, MoreCallsInFlightThanItHoldsAreNoError) {
  for (std::uint32_t call = 0; call < 3 * kRecords; ++call) begin(call);
  for (std::uint32_t call = 0; call < 3 * kRecords; ++call) writer_.end(call, Code::kSuccess, 0, 0);
  const RecordList list = records();
  EXPECT_EQ(list.count, kRecords);
  EXPECT_TRUE(std::all_of(list.records.begin(), list.records.end(),
                          [](const Record& each) { return each.state == RecordState::kDone; }));
}

TEST_F(CommTrailTest, AWaitNamesRankHostAndPurpose) {
  begin(3);
  begin(4);
  writer_.waits(
      3, {.peer = 1, .host = "host h1, pid 4711", .purpose = "the next fragment", .seconds = 1e-9});
  EXPECT_EQ(record_of(4).wait_since_ns, 0u);
  EXPECT_THAT(lines()[1], HasSubstr("RUNNING for "));
  EXPECT_THAT(lines()[1], HasSubstr("waits for rank 1 (host h1, pid 4711) for "));
  EXPECT_THAT(lines()[1], HasSubstr(": the next fragment"));
  writer_.waits_no_more(3);
  EXPECT_THAT(lines()[1], Not(HasSubstr("waits")));
  writer_.waits(99, {.peer = 1, .host = "", .purpose = "a call that is not there", .seconds = 1});
  EXPECT_EQ(records().count, 3u);
}

TEST_F(CommTrailTest, AFailedCallKeepsWhatItWaitedFor) {
  begin(3);
  writer_.waits(3, {.peer = 1, .host = "", .purpose = "a vote", .seconds = 1e-9});
  writer_.poisoned(Status(Code::kTimeout, "rank 1 is late"));
  writer_.poisoned(Status(Code::kRemoteError, "a later error"));
  writer_.end(3, Code::kTimeout, 0, 0);
  EXPECT_THAT(lines().back(), AllOf(HasSubstr("FAILED (sparclTimeout) after "),
                                    HasSubstr("waited for rank 1 for ")));
  LineWriter line;
  describe_trail(trail_->head.held(), monotonic_ns(), line);
  EXPECT_THAT(std::string(line.view()),
              AllOf(HasSubstr("poisoned"), HasSubstr("sparclTimeout: rank 1 is late")));
}

TEST_F(CommTrailTest, EqualCallsThatWentWellShareALine) {
  for (std::uint32_t call = 0; call < 9; ++call) {
    begin(call, call == 4 ? "Other" : "BroadcastDelta");
    writer_.end(call, call == 6 ? Code::kMismatch : Code::kSuccess, 0, 0);
  }
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("CommInit"), HasSubstr("calls 0 to 3 BroadcastDelta"),
                                   HasSubstr("call 4 Other"), HasSubstr("call 5 BroadcastDelta"),
                                   AllOf(HasSubstr("call 6 "), HasSubstr("FAILED")),
                                   HasSubstr("calls 7 to 8 ")));
  EXPECT_THAT(lines(2), ElementsAre(HasSubstr("calls 7 to 8 ")));
}

TEST_F(CommTrailTest, LongTextsAreCut) {
  const std::string text(1000, 'x');
  writer_.begin(0, {.operation = text.c_str(),
                    .count = 1,
                    .version = 1,
                    .root = 0,
                    .datatype = 250,
                    .detail = text});
  writer_.waits(0, {.peer = 1, .host = text, .purpose = text, .seconds = 1e300});
  writer_.poisoned(Status(Code::kSystemError, text));
  EXPECT_EQ(records().torn, 0u);
  EXPECT_LE(lines().back().size(), 640u);
}

TEST(CommTrail, WithoutATrailNothingHappens) {
  CommTrail none;
  none.begin(0, {});
  none.waits(0, {});
  none.end(0, Code::kSuccess, 0, 0);
  none.poisoned(Status(Code::kTimeout, "late"));
  EXPECT_EQ(none.trail(), nullptr);
}

// The ratio of two costs on one machine; that of a call with its end is about 3 clock reads. Wide:
// other programs run beside.
TEST_F(CommTrailTest, ACallCostsAFewReadsOfTheClock) {
  constexpr int kTimes = 20'000;
  const auto cpu_ns = [](auto&& work) {
    std::uint64_t best = UINT64_MAX;
    for (int i = 0; i < 5; ++i) {
      timespec from{}, to{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
      work();
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
      best = std::min(best, static_cast<std::uint64_t>((to.tv_sec - from.tv_sec) * 1'000'000'000 +
                                                       to.tv_nsec - from.tv_nsec));
    }
    return static_cast<double>(best) / kTimes;
  };
  volatile std::uint64_t sink = 0;
  const double clock_ns = cpu_ns([&] {
    for (int i = 0; i < kTimes; ++i) sink = sink + monotonic_ns();
  });
  std::uint32_t call = 0;
  const double call_ns = cpu_ns([&] {
    for (int i = 0; i < kTimes; ++i, ++call) {
      begin(call);
      writer_.end(call, Code::kSuccess, 0, 0);
    }
  });
  std::printf("a read of the clock %.1f ns, a call in the flight record %.1f ns\n", clock_ns,
              call_ns);
  RecordProperty("call_ns", std::to_string(call_ns));
  EXPECT_LT(call_ns, 100 * test::kShare * clock_ns);
}

}  // namespace
}  // namespace sparcl::flight
