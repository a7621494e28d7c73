// Ends of a stream that wait for what is no message: they are asked again, and work is theirs only
// where there is some.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/broadcast/broadcast.hpp"
#include "tests/support/sim_party.hpp"

namespace sparcl::collectives {
namespace {

using test::SimParty;

constexpr std::size_t kPieceBytes = 50'000;
constexpr int kPieces = 7, kWaits = 3;

// It waits so often before each piece of work.
class Waits {
 public:
  bool is_waiting() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  void work() {
    EXPECT_EQ(left_, 0) << "there was nothing to do";
    left_ = kWaits;
  }

 private:
  int left_ = kWaits;
};

class Source final : public broadcast::StreamSource {
 public:
  bool is_waiting() override { return waits_.is_waiting(); }
  Status produce(codec::ByteSink& sink) override {
    waits_.work();
    std::memset(sink.reserve(kPieceBytes), ++pieces_, kPieceBytes);
    sink.commit(kPieceBytes);
    return Status();
  }
  bool finished() const override { return pieces_ == kPieces; }
  void commit() override {}

 private:
  Waits waits_;
  int pieces_ = 0;
};

class Target final : public broadcast::StreamTarget {
 public:
  bool is_waiting() override { return waits_.is_waiting(); }
  Status check(const Staging&, std::uint64_t available, bool& more) override {
    waits_.work();
    checked_ = std::min(available, checked_ + kPieceBytes);
    more = checked_ < available;
    return Status();
  }
  Status finish(std::uint64_t stream_bytes) override {
    EXPECT_EQ(checked_, stream_bytes);
    EXPECT_EQ(checked_, kPieces * kPieceBytes);
    return Status();
  }
  Status commit(const Staging&) override {
    ++commits_;
    return commits_ < fails_at_ ? Status()
                                : Status(Code::kUnhandledCudaError, "as the test wants it");
  }
  bool is_committing() const override { return commits_ < 4; }

  int commits() const { return commits_; }
  void fail_commit(int at) { fails_at_ = at; }

 private:
  Waits waits_;
  std::uint64_t checked_ = 0;
  int commits_ = 0, fails_at_ = 100;
};

// A broadcast of all ranks; fails_at: of the last rank's commits.
void broadcast(SimParty& party, int fails_at = 100) {
  const auto ranks = static_cast<std::size_t>(party.size());
  std::vector<CommContext> contexts(ranks);
  std::vector<broadcast::BroadcastCall> calls(ranks);
  std::vector<CallReport> reports(ranks);
  std::vector<Target> targets(ranks);
  Source source;
  targets.back().fail_commit(fails_at);
  const transport::SimOutcome outcome = party.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    contexts[r].engine = &party.engine(rank);
    calls[r].dense_bytes = 1 << 20;
    if (rank == 0) calls[r].source = &source;
    calls[r].target = &targets[r];
    return run_broadcast(contexts[r], 1, calls[r], reports[r]);
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report;
  for (std::size_t r = 1; r < ranks; ++r)
    EXPECT_EQ(targets[r].commits(), r + 1 < ranks || fails_at > 4 ? 4 : fails_at);
}

TEST(WaitingEnds, AreAskedAgain) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      SimParty party(ranks, seed);
      broadcast(party);
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_TRUE(party.result(rank).ok()) << party.result(rank).message();
    }
  }
}

TEST(WaitingEnds, ACommitThatFailsOnItsWayEndsTheCommunicator) {
  SimParty party(3, 1);
  broadcast(party, 3);
  EXPECT_EQ(party.result(2).code(), Code::kRemoteError);
  EXPECT_FALSE(party.engine(2).health().ok());
}

}  // namespace
}  // namespace sparcl::collectives
