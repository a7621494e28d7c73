// The folder of an aggregator: what was written is read, whatever the process died of.
#include "src/elastic/round_log.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/kernel_set.hpp"

namespace sparcl::elastic {
namespace {

struct Folder {
  explicit Folder(const char* name) : path(testing::TempDir() + name + std::to_string(::getpid())) {
    std::filesystem::remove_all(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

LoggedRound round_of(std::uint64_t number) {
  LoggedRound round{number,
                    2,
                    3.5,
                    true,
                    {{11, number}, {12, number - 1}},
                    Buffer::allocate(100),
                    Buffer::allocate(10)};
  std::ranges::fill(round.sum.bytes(), static_cast<std::byte>(number));
  std::ranges::fill(round.weights.bytes(), std::byte{9});
  return round;
}

aggregate::Aggregator some_aggregator() {
  aggregate::AggregatorOptions options;
  options.outer.kind = aggregate::OuterKind::kNesterov;
  options.outer.momentum = 0.5;
  aggregate::Aggregator made = *aggregate::Aggregator::create(1000, options);
  EXPECT_TRUE(made.take_range(0, 1000, kernels::cpu_kernels()).ok());
  return made;
}

std::string only_log(const std::string& folder) {
  for (const auto& each : std::filesystem::directory_iterator(folder)) {
    if (each.path().extension() == ".log") return each.path().string();
  }
  return {};
}

TEST(RoundLog, ReadsWhatAnEarlierTermHasWritten) {
  const Folder folder("round_log_read");
  aggregate::Aggregator aggregator = some_aggregator();
  {
    Result<RoundLog> log = RoundLog::open(folder.path);
    ASSERT_TRUE(log.ok()) << log.status().message();
    EXPECT_EQ(log->read()->round, 0U);
    ASSERT_TRUE(log->keep(1, std::vector<float>(1000, 1.5F), aggregator, {}).ok());
    for (std::uint64_t number = 1; number <= 3; ++number)
      ASSERT_TRUE(log->append(round_of(number)).ok());
  }
  const Result<RoundLog> next = RoundLog::open(folder.path);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->term(), 2U);
  const Result<RoundLog::Kept> kept = next->read();
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  EXPECT_EQ(kept->round, 1U);
  ASSERT_EQ(kept->rounds.size(), 3U);
  EXPECT_EQ(serialise(kept->rounds[2]), serialise(round_of(3)));
}

TEST(RoundLog, AnUnfinishedRoundDoesNotCount) {
  const Folder folder("round_log_torn");
  aggregate::Aggregator aggregator = some_aggregator();
  std::string path;
  std::uintmax_t whole = 0;
  {
    Result<RoundLog> log = RoundLog::open(folder.path);
    ASSERT_TRUE(log->keep(1, std::vector<float>(1000), aggregator, {}).ok());
    ASSERT_TRUE(log->append(round_of(1)).ok());
    path = only_log(folder.path);
    whole = std::filesystem::file_size(path);
    ASSERT_TRUE(log->append(round_of(2)).ok());
  }
  const std::uintmax_t both = std::filesystem::file_size(path);
  for (std::uintmax_t size = both - 1; size >= whole; size -= 7) {
    std::filesystem::resize_file(path, size);
    const Result<RoundLog> next = RoundLog::open(folder.path);
    ASSERT_EQ(next->read()->rounds.size(), 1U) << size;
    if (size < whole + 7) break;
  }
}

TEST(RoundLog, ADamagedRoundAndAllAfterItDoNotCount) {
  const Folder folder("round_log_damaged");
  aggregate::Aggregator aggregator = some_aggregator();
  std::string path;
  std::uintmax_t first = 0;
  {
    Result<RoundLog> log = RoundLog::open(folder.path);
    ASSERT_TRUE(log->keep(1, std::vector<float>(1000), aggregator, {}).ok());
    ASSERT_TRUE(log->append(round_of(1)).ok());
    path = only_log(folder.path);
    first = std::filesystem::file_size(path);
    for (std::uint64_t number = 2; number <= 3; ++number)
      ASSERT_TRUE(log->append(round_of(number)).ok());
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(first + 60));
  file.put('x');
  file.close();
  const Result<RoundLog> next = RoundLog::open(folder.path);
  EXPECT_EQ(next->read()->rounds.size(), 1U);
}

TEST(RoundLog, ALaterTermFencesAnEarlierOne) {
  const Folder folder("round_log_terms");
  aggregate::Aggregator aggregator = some_aggregator();
  Result<RoundLog> old_log = RoundLog::open(folder.path);
  ASSERT_TRUE(old_log->keep(1, std::vector<float>(1000), aggregator, {}).ok());
  ASSERT_TRUE(old_log->append(round_of(1)).ok());
  Result<RoundLog> new_log = RoundLog::open(folder.path);
  ASSERT_EQ(new_log->read()->rounds.size(), 1U);
  EXPECT_EQ(old_log->append(round_of(2)).code(), Code::kInvalidUsage);
  LoggedRound other = round_of(2);
  other.workers = 99;
  ASSERT_TRUE(new_log->append(other).ok());
  // The next one goes on with the later term's round 2.
  const Result<RoundLog> last = RoundLog::open(folder.path);
  const Result<RoundLog::Kept> kept = last->read();
  ASSERT_EQ(kept->rounds.size(), 2U);
  EXPECT_EQ(kept->rounds[1].workers, 99U);
}

TEST(RoundLog, AStateReplacesWhatWasBeforeAndRemembersWhatCounted) {
  const Folder folder("round_log_keep");
  aggregate::Aggregator aggregator = some_aggregator();
  {
    Result<RoundLog> log = RoundLog::open(folder.path);
    ASSERT_TRUE(log->keep(1, std::vector<float>(1000), aggregator, {}).ok());
    ASSERT_TRUE(log->append(round_of(1)).ok());
    LoggedRound past = round_of(1);
    past.has_sum = false;
    past.sum = past.weights = Buffer();
    ASSERT_TRUE(log->keep(2, std::vector<float>(1000, 2), aggregator, std::vector{past}).ok());
    ASSERT_TRUE(log->append(round_of(2)).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/1.weights.safetensors"));
  const Result<RoundLog> next = RoundLog::open(folder.path);
  const Result<RoundLog::Kept> kept = next->read();
  EXPECT_EQ(kept->round, 2U);
  ASSERT_EQ(kept->past.size(), 1U);
  EXPECT_EQ(kept->past[0].listed.size(), 2U);
  EXPECT_EQ(kept->rounds.size(), 1U);
}

// A process that ends while it keeps a state has written what past rounds listed, without their
// sums: those in the file before still count.
TEST(RoundLog, AStateThatWasNotFinishedTakesNoSumAway) {
  const Folder folder("round_log_unfinished");
  aggregate::Aggregator aggregator = some_aggregator();
  for (const bool is_later_term : {false, true}) {
    SCOPED_TRACE(is_later_term);
    std::filesystem::remove_all(folder.path);
    Result<RoundLog> log = RoundLog::open(folder.path);
    ASSERT_TRUE(log->keep(57, std::vector<float>(1000), aggregator, {}).ok());
    std::vector<LoggedRound> past;
    for (std::uint64_t number = 57; number <= 112; ++number) {
      ASSERT_TRUE(log->append(round_of(number)).ok());
      LoggedRound listed = round_of(number);
      listed.has_sum = false;
      listed.sum = listed.weights = Buffer();
      past.push_back(std::move(listed));
    }
    const std::string current = folder.path + "/current";
    const std::string text = "57\n";
    const std::filesystem::path first = folder.path + "/rounds-57-1.log";
    const std::filesystem::path saved = folder.path + "/saved";
    std::filesystem::copy_file(first, saved);
    for (const char* name : {".weights.safetensors", ".aggregator.safetensors"})
      std::filesystem::copy_file(folder.path + "/57" + name, folder.path + "/kept" + name);
    if (is_later_term) {
      Result<RoundLog> later = RoundLog::open(folder.path);
      ASSERT_TRUE(later->keep(113, std::vector<float>(1000), aggregator, past).ok());
    } else {
      ASSERT_TRUE(log->keep(113, std::vector<float>(1000), aggregator, past).ok());
    }
    // As if it had ended before `current` was replaced.
    std::ofstream(current) << text;
    std::filesystem::rename(saved, first);
    for (const char* name : {".weights.safetensors", ".aggregator.safetensors"})
      std::filesystem::rename(folder.path + "/kept" + name, folder.path + "/57" + name);
    const Result<RoundLog> next = RoundLog::open(folder.path);
    const Result<RoundLog::Kept> kept = next->read();
    ASSERT_TRUE(kept.ok()) << kept.status().message();
    EXPECT_EQ(kept->round, 57U);
    ASSERT_EQ(kept->rounds.size(), 56U);
    for (const LoggedRound& each : kept->rounds) EXPECT_TRUE(each.has_sum) << each.round;
  }
}

}  // namespace
}  // namespace sparcl::elastic
