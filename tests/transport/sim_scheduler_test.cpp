#include "src/transport/loopback/sim_scheduler.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/party.hpp"

namespace sparcl {
namespace {

// Passes a counter round the ring; each rank adds one to what it got and takes part `rounds` times.
class RingRank {
 public:
  RingRank(transport::Transport& transport, int rounds) : transport_(transport), rounds_(rounds) {}

  bool step() {
    std::vector<transport::OperationRef> completed;
    EXPECT_TRUE(transport_.progress(completed).ok());
    if (!receive_) {
      receive_ = transport_.receive((transport_.rank() + transport_.size() - 1) % transport_.size(),
                                    {1, 0}, Buffer::allocate(8));
      if (transport_.rank() == 0 && sent_ == 0) pass_on(1);
      return true;
    }
    if (!receive_->done) return !completed.empty();
    std::uint64_t value = 0;
    std::memcpy(&value, receive_->buffer.data(), 8);
    last_ = value;
    receive_.reset();
    if (++got_ < rounds_ || transport_.rank() != 0) pass_on(value + 1);
    return true;
  }
  bool finished() const { return got_ == rounds_; }
  std::uint64_t last() const { return last_; }

 private:
  void pass_on(std::uint64_t value) {
    Buffer message = Buffer::allocate(8);
    std::memcpy(message.data(), &value, 8);
    sends_.push_back(transport_.send((transport_.rank() + 1) % transport_.size(), {1, 0}, message));
    ++sent_;
  }

  transport::Transport& transport_;
  int rounds_, got_ = 0, sent_ = 0;
  std::uint64_t last_ = 0;
  transport::OperationRef receive_;
  std::vector<transport::OperationRef> sends_;
};

transport::SimOutcome run_ring(std::uint64_t seed, int ranks, int rounds, bool kill_one,
                               std::vector<std::uint64_t>& last) {
  transport::LoopbackWorld world(ranks,
                                 {.deterministic = true, .seed = seed, .announce_death = false});
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<std::unique_ptr<RingRank>> programs;
  transport::SimScheduler scheduler(world, seed);
  for (int rank = 0; rank < ranks; ++rank) {
    transports.push_back(world.make_transport(rank));
    programs.push_back(std::make_unique<RingRank>(*transports.back(), rounds));
    RingRank& program = *programs.back();
    const bool dead = kill_one && rank == 1;
    if (dead) world.kill(1);
    scheduler.add({[&program] { return program.step(); },
                   {},
                   [&program, dead] { return dead || program.finished(); }});
  }
  const transport::SimOutcome outcome = scheduler.run();
  for (const auto& program : programs) last.push_back(program->last());
  return outcome;
}

TEST(SimScheduler, RunsARingUnderManySeeds) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (const int ranks : {1, 2, 3, 8}) {
      std::vector<std::uint64_t> last;
      const transport::SimOutcome outcome = run_ring(seed, ranks, 5, false, last);
      ASSERT_TRUE(outcome.ok()) << "seed " << seed << ": " << outcome.report;
      EXPECT_EQ(last.front(), static_cast<std::uint64_t>(5 * ranks));
    }
  }
}

TEST(SimScheduler, ReplaysFromItsSeed) {
  std::vector<std::uint64_t> last;
  std::set<std::uint64_t> step_counts;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const transport::SimOutcome first = run_ring(seed, 4, 6, false, last);
    const transport::SimOutcome second = run_ring(seed, 4, 6, false, last);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.deliveries, second.deliveries);
    EXPECT_EQ(first.seconds, second.seconds);
    step_counts.insert(first.steps);
  }
  EXPECT_GT(step_counts.size(), 1u);
}

TEST(SimScheduler, ReportsADeadlockWithTheRanksThatAreStuck) {
  std::vector<std::uint64_t> last;
  const transport::SimOutcome outcome = run_ring(1, 3, 2, true, last);
  EXPECT_EQ(outcome.end, transport::SimOutcome::End::kDeadlock);
  EXPECT_NE(outcome.report.find("0, 2"), std::string::npos) << outcome.report;
}

TEST(SimScheduler, JumpsToTheEarliestTimer) {
  transport::LoopbackWorld world(2, {.deterministic = true});
  std::vector<double> woken;
  transport::SimScheduler scheduler(world, 1);
  for (const double due : {50.0, 20.0}) {
    const auto over = std::make_shared<bool>(false);
    scheduler.add({[&woken, &world, over, due] {
                     if (*over || world.now() < due) return false;
                     woken.push_back(due);
                     return *over = true;
                   },
                   [over, due] { return *over ? std::numeric_limits<double>::infinity() : due; },
                   [over] { return *over; }});
  }
  const transport::SimOutcome outcome = scheduler.run();
  EXPECT_TRUE(outcome.ok()) << outcome.report;
  EXPECT_EQ(woken, (std::vector<double>{20.0, 50.0}));
  EXPECT_GE(outcome.seconds, 50.0);
}

TEST(SimScheduler, StopsAtTheStepLimit) {
  transport::LoopbackWorld world(1, {.deterministic = true});
  transport::SimScheduler scheduler(world, 1);
  scheduler.add({[] { return true; }, {}, [] { return false; }});
  EXPECT_EQ(scheduler.run(1'000).end, transport::SimOutcome::End::kStepLimit);

  // A rank that never notices that its deadline has passed.
  transport::SimScheduler blind(world, 1);
  blind.add({[] { return false; }, [&world] { return world.now(); }, [] { return false; }});
  EXPECT_EQ(blind.run(1'000).end, transport::SimOutcome::End::kStepLimit);
}

}  // namespace
}  // namespace sparcl
