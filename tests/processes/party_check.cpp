#include "tests/processes/party_check.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <map>
#include <set>

#include "src/base/seeded_random.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

// The seeds of this process, from SPARCL_TEST_SHARD.
struct Shard {
  std::uint64_t own = 0, of = 1;
};
Shard shard() {
  const char* text = std::getenv("SPARCL_TEST_SHARD");
  Shard read;
  if (text == nullptr) return read;
  char* end = nullptr;
  read.own = std::strtoull(text, &end, 10);
  if (*end == '/') read.of = std::strtoull(end + 1, nullptr, 10);
  return read.of > 0 && read.own < read.of ? read : Shard();
}

}  // namespace

Tally tally;

void run_seeds(const char* row, std::uint64_t quick,
               const std::function<void(std::uint64_t)>& run) {
  if (const char* only = std::getenv("SPARCL_TEST_SEED"); only != nullptr)
    return run(std::strtoull(only, nullptr, 10));
  const char* wanted = std::getenv("SPARCL_TEST_SEEDS");
  const std::uint64_t seeds =
      wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : by_tier<std::uint64_t>(quick, 1'000);
  tally = {};
  const auto [own, of] = shard();
  for (std::uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    if (seed % of == own) run(seed);
  }
  std::printf(
      "%s: %d parties, %d processes died, %d ranks had a named error (the slowest after %.2f s), "
      "%d were through before\n",
      row, tally.parties, tally.deaths, tally.errors, tally.slowest_s, tally.untouched);
}

PartyPlan Processes::plan_of(std::uint64_t seed) const {
  SeededRandom random(mix64(seed ^ 0x9a27));
  PartyPlan plan;
  plan.seed = seed;
  plan.ranks = static_cast<int>(2 + random.below(3));
  plan.lanes = GetParam();
  return plan;
}

void Check::finish() {
  EXPECT_TRUE(party_.finish()) << "a hang";
  ++tally.parties;
  for (int rank = 0; rank < party_.plan().ranks; ++rank) {
    const ProcessRecord& record = party_.processes().record(rank);
    const End end = ends_[static_cast<std::size_t>(rank)];
    const bool as_expected =
        end == End::kAny || (end == End::kClean ? record.exited_with(0) : record.died_of(SIGKILL));
    EXPECT_TRUE(as_expected) << "rank " << rank << ": " << record.describe_end();
    tally.deaths += record.died_of(SIGKILL);
    for (const ProcessLine& line : record.lines)
      EXPECT_THAT(line.text, testing::Not(HasSubstr("UCX  WARN"))) << "rank " << rank;
    const RankStory story = party_.story(rank);
    for (const StepRecord& step : story.steps) {
      EXPECT_TRUE(step.right) << "rank " << rank << " step " << step.step << ": holds "
                              << step.holds << ", code " << step.code;
    }
    EXPECT_TRUE(story.poisoned_right) << "rank " << rank << ": what came after the error";
  }
  same_new_state();
  EXPECT_EQ(party_.left_behind(), "");
  if (testing::Test::HasFailure()) ADD_FAILURE() << party_.describe();
}

void Check::all_succeeded(int rank) {
  const RankStory story = party_.story(rank);
  EXPECT_EQ(story.steps.size(), static_cast<std::size_t>(party_.plan().steps)) << "rank " << rank;
  for (const StepRecord& step : story.steps)
    EXPECT_EQ(step.code, sparclSuccess) << "rank " << rank << ": " << step.error;
}

void Check::got_error(int rank) {
  const RankStory story = party_.story(rank);
  ASSERT_NE(story.error(), nullptr) << "rank " << rank << " has no error";
  EXPECT_THAT(story.error()->error, HasSubstr("rank "));
}

void Check::others_got_error(int culprit, double since_s, double within_s) {
  const int last_step = party_.plan().steps - 1;
  const bool may_have_succeeded = party_.story(culprit).last_begun >= last_step;
  const std::string pid = fmt::format("pid {}", party_.processes().record(culprit).pid);
  for (int rank = 0; rank < party_.plan().ranks; ++rank) {
    if (rank == culprit) continue;
    const RankStory story = party_.story(rank);
    if (story.has_met && story.init_code != sparclSuccess) {
      check_init_error(rank, story, culprit, since_s + within_s);
      continue;
    }
    const StepRecord* error = story.error();
    if (error == nullptr) {
      ++tally.untouched;
      EXPECT_TRUE(may_have_succeeded) << "rank " << rank << " has no error";
      if (may_have_succeeded) all_succeeded(rank);
      continue;
    }
    ++tally.errors;
    tally.slowest_s = std::max(tally.slowest_s, error->at_s - since_s);
    EXPECT_LT(error->at_s - since_s, within_s) << "rank " << rank << ": " << error->error;
    EXPECT_EQ(error->code, sparclRemoteError) << "rank " << rank << ": " << error->error;
    EXPECT_THAT(error->error, StartsWith(fmt::format("rank {}: rank {} (host ", rank, culprit)));
    EXPECT_THAT(error->error, HasSubstr(pid)) << "rank " << rank;
    if (!story.failed_ranks.empty()) {
      EXPECT_EQ(story.failed_ranks.front(), culprit) << "rank " << rank << ": " << error->error;
    }
  }
}

void Check::survivors_went_on(int outcast) {
  const RankParty& party = party_;
  std::set<int> new_ranks;
  std::vector<RankStory> survivors;
  for (int rank = 0; rank < party.plan().ranks; ++rank) {
    const RankStory story = party.story(rank);
    tally.errors += story.error() != nullptr;
    if (rank == outcast) continue;
    if (story.has_ended && !story.shrinks.empty()) survivors.push_back(story);
  }
  for (const RankStory& story : survivors) {
    const ShrinkRecord& last = story.shrinks.back();
    EXPECT_EQ(last.code, sparclSuccess) << last.error;
    EXPECT_EQ(last.ranks, static_cast<int>(survivors.size()));
    EXPECT_TRUE(new_ranks.insert(last.rank).second) << "two survivors are rank " << last.rank;
    int made = 0;
    for (const StepRecord& step : story.steps) {
      if (step.epoch != static_cast<int>(story.shrinks.size())) continue;
      ++made;
      EXPECT_EQ(step.code, sparclSuccess) << "after the shrink: " << step.error;
    }
    EXPECT_EQ(made, party.plan().steps);
  }
}

void Check::one_part_went_on(int outcast) {
  const bool is_outcasts = party_.plan().ranks == 2 && outcast == 0;
  for (int rank = 0; rank < party_.plan().ranks; ++rank) {
    const RankStory story = party_.story(rank);
    if (rank == outcast && story.error() == nullptr) {
      all_succeeded(rank);  // what it lacked had come
      continue;
    }
    EXPECT_EQ(story.shrinks.size(), 1U) << "rank " << rank;
    if (story.shrinks.empty()) continue;
    const ShrinkRecord& shrink = story.shrinks.front();
    EXPECT_EQ(shrink.code, (rank == outcast) == is_outcasts ? sparclSuccess : sparclRemoteError)
        << "rank " << rank << ": " << shrink.error;
  }
  if (!is_outcasts) survivors_went_on(outcast);
}

int Check::check_that_one_part_went_on() {
  std::set<int> new_ranks;
  int max_ranks = 0;
  for (int rank = 0; rank < party_.plan().ranks; ++rank) {
    const RankStory story = party_.story(rank);
    got_error(rank);
    if (story.error() == nullptr) continue;
    ++tally.errors;
    EXPECT_EQ(story.error()->code, sparclRemoteError)
        << "rank " << rank << ": " << story.error()->error;
    EXPECT_EQ(story.shrinks.size(), 1U) << "rank " << rank;
    if (story.shrinks.empty()) continue;
    const ShrinkRecord& shrink = story.shrinks.front();
    EXPECT_THAT(shrink.code, AnyOf(sparclSuccess, sparclRemoteError))
        << "rank " << rank << ": " << shrink.error;
    if (shrink.code != sparclSuccess) continue;
    EXPECT_TRUE(new_ranks.insert(shrink.rank).second)
        << "two parts went on: two are rank " << shrink.rank;
    max_ranks = std::max(max_ranks, shrink.ranks);
  }
  EXPECT_EQ(static_cast<int>(new_ranks.size()), max_ranks) << "two parts went on, or less than one";
  return max_ranks;
}

void Check::check_init_error(int rank, const RankStory& story, int culprit, double until_s) {
  EXPECT_TRUE(poisons(story.init_code)) << "rank " << rank << ": code " << story.init_code;
  EXPECT_LT(story.met_at_s, until_s) << "rank " << rank;
  EXPECT_THAT(
      story.init_error,
      AnyOf(HasSubstr(fmt::format("rank {}", culprit)), HasSubstr(fmt::format("ranks {}", culprit)),
            HasSubstr(culprit == 0 ? "the process that made the unique id" : "no text has this")))
      << "rank " << rank;
}

// Ranks that applied a step hold the same bits.
void Check::same_new_state() {
  std::map<std::pair<int, int>, std::string> hashes;
  for (int rank = 0; rank < party_.plan().ranks; ++rank) {
    for (const StepRecord& step : party_.story(rank).steps) {
      if (step.code != sparclSuccess) continue;
      const auto [known, is_first] = hashes.emplace(std::pair(step.epoch, step.step), step.hash);
      EXPECT_EQ(known->second, step.hash)
          << "rank " << rank << " epoch " << step.epoch << " step " << step.step;
    }
  }
}

}  // namespace sparcl::test
