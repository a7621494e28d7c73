// FanOut answers what the rules say, whatever happened before, and looks at few rows for it.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/replication/fan_out_rules.hpp"

namespace sparcl::replication {
namespace {

using Id = FanOut::Id;

// Both ways at once, through the same random events.
class Twins {
 public:
  Twins(std::uint64_t seed, int degree) : random_(seed), plan_(degree), rules_(degree) {}

  void step() {
    now_ += 0.1 * static_cast<double>(pick(8)) * static_cast<double>(pick(20) == 0 ? 50 : 1);
    version_ += pick(3) == 0 ? 1 : 0;
    if (there_.empty() || pick(9) == 0) return join();
    const Id id = *std::next(there_.begin(), static_cast<std::ptrdiff_t>(pick(there_.size())));
    switch (pick(16)) {
      case 0:
        if (pick(4) != 0) break;
        both([&](auto& plan) { plan.leave(id); });
        there_.erase(id);
        break;
      case 1:
        come_back(id);
        break;
      case 2:
        relieve();
        break;
      case 3:
      case 4:
        both([&](auto& plan) { plan.set_full(id, fill_); });
        fill_ = pick(3) == 0;
        break;
      case 5:
        both([&](auto& plan) { plan.held_up(id, version_, now_ - 0.5); });
        break;
      case 6:
      case 7:
        send(id, pick(3) == 0);
        break;
      case 8:
        await(id);
        break;
      case 9:
      case 10:
      case 11:
        both([&](auto& plan) { plan.staged(id, version_, now_); });
        break;
      default:
        place(id);
    }
  }

  void check() {
    ASSERT_EQ(plan_.degree(), rules_.degree());
    for (const Id id : there_) ASSERT_EQ(plan_.parent(id), rules_.parent(id)) << id;
  }

  int placed() const { return placed_; }
  int expelled() const { return expelled_; }

 private:
  std::uint64_t pick(std::uint64_t count) { return random_() % count; }

  template <class Do>
  void both(Do&& act) {
    act(plan_);
    act(rules_);
  }

  void join() {
    std::optional<net::NetAddress> machine;
    if (pick(3) != 0) {
      machine = net::loopback_address(static_cast<std::uint16_t>(1000 + pick(1000)));
      machine->ip[3] = static_cast<std::byte>(pick(5));
    }
    const bool passes_on = pick(6) != 0;
    ++last_;
    const std::optional<net::NetAddress> from =
        net::loopback_address(static_cast<std::uint16_t>(last_));
    both([&](auto& plan) { plan.join(last_, passes_on, machine, pick_from_ ? from : machine); });
    pick_from_ = pick(40) == 0;
    there_.insert(last_);
    send(last_, pick(2) == 0);
  }

  void come_back(Id id) {
    const auto blame = static_cast<FanOut::Blame>(pick(5));
    const auto should = rules_.come_back(id, blame, now_);
    ASSERT_EQ(plan_.come_back(id, blame, now_), should);
    expelled_ += should ? 1 : 0;
  }

  void await(Id id) {
    const std::uint64_t version = version_ + pick(2), bytes = std::uint64_t{1} << (16 + pick(8));
    both([&](auto& plan) { plan.awaits(id, version, bytes, now_); });
  }

  void send(Id id, bool is_anchor) {
    const std::uint64_t bytes = std::uint64_t{1} << (18 + pick(6));
    const double seconds = 0.01 * static_cast<double>(1 + pick(4));
    const bool ends = pick(3) != 0;
    both([&](auto& plan) { plan.begin(id, version_, bytes, is_anchor, now_); });
    now_ += seconds;
    if (!ends) return;
    both([&](auto& plan) { plan.sent(id, now_); });
    both([&](auto& plan) { plan.staged(id, version_, now_); });
  }

  void place(Id id) {
    const std::uint64_t anchor = pick(2) == 0 ? 0 : version_ - pick(2);
    const auto should = rules_.assign_parent(id, anchor, now_);
    ASSERT_EQ(plan_.assign_parent(id, anchor, now_), should);
    placed_ += should ? 1 : 0;
  }

  void relieve() {
    const std::vector<Id> moved = rules_.relieve(now_);
    ASSERT_EQ(plan_.relieve(now_), moved);
    for (const Id id : moved)
      both([&](auto& plan) { plan.come_back(id, FanOut::Blame::kNobody, now_); });
  }

  std::mt19937_64 random_;
  FanOut plan_;
  FanOutRules rules_;
  std::set<Id> there_;
  Id last_ = 0;
  double now_ = 0;
  std::uint64_t version_ = 10;
  bool pick_from_ = false;
  bool fill_ = false;
  int placed_ = 0;
  int expelled_ = 0;
};

TEST(FanOutIndex, PlacesAsTheRulesSay) {
  int placed = 0, expelled = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Twins twins(seed, static_cast<int>(seed % 4));
    for (int step = 0; step < 500; ++step) {
      twins.step();
      if (!::testing::Test::HasFatalFailure()) twins.check();
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed << ", step " << step;
    }
    placed += twins.placed();
    expelled += twins.expelled();
  }
  EXPECT_GT(placed, 5000);
  EXPECT_GT(expelled, 100);
}

// --- what it costs, in rows ---

constexpr Id kMany = 10'000;
constexpr std::uint64_t kFewRows = 60;  // of each replica

struct Round {
  int placed = 0;
  std::uint64_t rows = 0;
};

void serve(FanOut& plan, Id id) {
  plan.begin(id, 1, 1000, false, 0);
  plan.sent(id, 0);
  plan.staged(id, 1, 0);
}

// All of them once, as they come to hold a version.
Round round_of(FanOut& plan, std::uint64_t version, double now) {
  Round round;
  const std::uint64_t before = plan.looked_at();
  for (Id id = 1; id <= kMany; ++id) {
    if (plan.parent(id) == FanOut::kPublisher) {
      plan.begin(id, version, 2 << 20, false, now);
      plan.sent(id, now);
    }
    plan.staged(id, version, now + 0.5);
    round.placed += plan.assign_parent(id, 0, now + 0.5).has_value() ? 1 : 0;
  }
  round.rows = plan.looked_at() - before;
  return round;
}

TEST(FanOutIndex, ThousandsOfReplicasCostFewRowsEach) {
  for (const int degree : {0, 1, 2}) {
    FanOut plan(degree);
    for (Id id = 1; id <= kMany; ++id) plan.join(id, true);
    const Round first = round_of(plan, 1, 1);
    EXPECT_EQ(first.placed, static_cast<int>(kMany) - plan.degree());
    EXPECT_LT(first.rows, kMany * kFewRows) << degree;
    EXPECT_LT(round_of(plan, 2, 2).rows, kMany * kFewRows) << degree;
    // Where each chain's first one leaves, those behind it come back.
    const std::uint64_t before = plan.looked_at();
    for (Id id = 1; id <= static_cast<Id>(plan.degree()); ++id) plan.leave(id);
    EXPECT_LT(plan.looked_at() - before, kMany * kFewRows) << degree;
  }
}

// All of them are current before the first is placed. Each takes from the next one, which takes
// those behind it along: these are looked at, but no others.
TEST(FanOutIndex, ThousandsThatAreCurrentAtOnceAreNotCubic) {
  constexpr Id kCount = 2000;
  FanOut plan(0);
  for (Id id = 1; id <= kCount; ++id) {
    plan.join(id, true);
    serve(plan, id);
  }
  int placed = 0;
  const std::uint64_t before = plan.looked_at();
  for (Id id = 1; id <= kCount; ++id) placed += plan.assign_parent(id, 0, 1).has_value() ? 1 : 0;
  EXPECT_EQ(placed, static_cast<int>(kCount) - plan.degree());
  EXPECT_LT(plan.looked_at() - before, kCount * kCount);
}

TEST(FanOutIndex, ThousandsThatPassNothingOnCostFewRowsEach) {
  FanOut plan(0);
  for (Id id = 1; id <= kMany; ++id) plan.join(id, false);
  for (std::uint64_t version = 1; version <= 3; ++version) {
    const Round round = round_of(plan, version, static_cast<double>(version));
    EXPECT_EQ(round.placed, 0);
    EXPECT_LT(round.rows, kMany * kFewRows);
  }
}

TEST(FanOutIndex, ThousandsOfOneAddressCostFewRowsEach) {
  FanOut plan(0);
  const net::NetAddress machine = net::loopback_address();
  for (Id id = 1; id <= kMany; ++id) plan.join(id, true, machine);
  const Round round = round_of(plan, 1, 1);
  EXPECT_EQ(round.placed, static_cast<int>(kMany) - 1);
  EXPECT_LT(round.rows, kMany * kFewRows);
}

// All of them are late and full: nothing can be moved, and that is found in one pass, each time.
TEST(FanOutIndex, ThousandsThatTakeNoMoreCostFewRowsEach) {
  FanOut plan(1);
  for (Id id = 1; id <= kMany; ++id) plan.join(id, true);
  (void)round_of(plan, 1, 1);
  for (Id id = 1; id <= kMany; ++id) {
    plan.set_full(id, true);
    plan.held_up(id, 2, 2);
  }
  const std::uint64_t before = plan.looked_at();
  EXPECT_TRUE(plan.relieve(10).empty());
  EXPECT_LT(plan.looked_at() - before, kMany * kFewRows);
}

}  // namespace
}  // namespace sparcl::replication
