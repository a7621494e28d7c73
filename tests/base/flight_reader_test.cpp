#include "src/base/flight/flight_reader.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "src/base/flight/comm_trail.hpp"
#include "src/base/flight/flight_dump.hpp"
#include "src/base/process_info.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::flight {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kUsed = 2;

// A record of this process in a file without a name.
class FlightReader : public ::testing::Test {
 protected:
  FlightReader() : stream_(std::tmpfile()), file_(::fileno(stream_)) {
    EXPECT_EQ(::ftruncate(file_, kPageBytes + kUsed * kTrailBytes), 0);
    void* at = ::mmap(nullptr, kPageBytes + kUsed * kTrailBytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      file_, 0);
    image_ = static_cast<std::byte*>(at);
    FileHead& head = head_of(image_);
    head.magic = kMagic;
    head.layout_version = kLayoutVersion;
    head.trail_bytes = kTrailBytes;
    head.record_count = kRecords;
    head.record_bytes = sizeof(Published<Record>);
    head.pid = ::getpid();
    head.process_start = process_info(::getpid()).start_ticks;
    head.pid_namespace = own_pid_namespace();
    head.trails_used = kUsed;
    for (std::size_t i = 0; i < kUsed; ++i) {
      writers_[i] =
          CommTrail({.id = i, .rank = static_cast<int>(i), .size = 2, .transport = "loopback"},
                    trail_of(image_, i));
    }
  }
  ~FlightReader() override {
    for (CommTrail& writer : writers_) writer = CommTrail();
    ::munmap(image_, kPageBytes + kUsed * kTrailBytes);
    std::fclose(stream_);
  }
  Result<Snapshot> read() const { return read_record(file_, "the record"); }

  std::FILE* stream_;
  int file_;
  std::byte* image_ = nullptr;
  std::array<CommTrail, kUsed> writers_;
};

TEST_F(FlightReader, ReadsWhatWasWritten) {
  writers_[1].begin(4, {.operation = "BroadcastUpdate",
                        .count = 7,
                        .version = 9,
                        .root = 0,
                        .datatype = -1,
                        .detail = "tensors"});
  const Result<Snapshot> snapshot = read();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().message();
  EXPECT_EQ(snapshot->life, Life::kRunning);
  ASSERT_EQ(snapshot->trails.size(), 2u);
  EXPECT_EQ(snapshot->trails[1].head.rank, 1);
  const RecordList& list = snapshot->trails[1].records;
  ASSERT_EQ(list.count, 2u);
  EXPECT_EQ(list.records[1].version, 9u);
  EXPECT_EQ(list.records[1].call, 4u);
}

TEST_F(FlightReader, AFileThatIsCutIsAnErrorWhereverItIsCut) {
  const std::vector<std::byte> whole(image_, image_ + kPageBytes + kUsed * kTrailBytes);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{7}, sizeof(FileHead) - 1,
                                  sizeof(FileHead), kPageBytes, whole.size() - 1}) {
    std::FILE* cut = std::tmpfile();
    ASSERT_EQ(::write(::fileno(cut), whole.data(), bytes), static_cast<ssize_t>(bytes));
    EXPECT_EQ(read_record(::fileno(cut), "the record").status().code(), Code::kCorrupt) << bytes;
    std::fclose(cut);
  }
}

TEST_F(FlightReader, DamagedHeadsAreRefused) {
  const FileHead good = head_of(image_);
  const auto code_after = [&](const std::function<void(FileHead&)>& damage) {
    head_of(image_) = good;
    damage(head_of(image_));
    return read().status().code();
  };
  EXPECT_EQ(code_after([](FileHead&) {}), Code::kSuccess);
  EXPECT_EQ(code_after([](FileHead& head) { head.magic[7] ^= 1; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.layout_version = kLayoutVersion + 1; }),
            Code::kUnsupported);
  EXPECT_EQ(code_after([](FileHead& head) { head.trail_bytes = 0; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.record_count += 1; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.record_bytes = UINT32_MAX; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.trails_used = kTrails + 1; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.trails_used = UINT64_MAX; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.trails_used = kUsed + 1; }), Code::kCorrupt)
      << "more than the file holds";
  EXPECT_EQ(code_after([](FileHead& head) { head.pid = -1; }), Code::kCorrupt);
  EXPECT_EQ(code_after([](FileHead& head) { head.pid = INT64_MAX; }), Code::kCorrupt);
  head_of(image_) = good;
}

TEST_F(FlightReader, AnyBytesGiveLinesFitForATerminal) {
  const int seeds = test::by_tier(200, 20'000);
  const std::size_t bytes = kUsed * kTrailBytes;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::uint64_t word = random();
      if (random() % 4 == 0) word &= 0xff;               // small enough for a state or a code
      if (random() % 4 == 0) word &= ~std::uint64_t{1};  // an even sequence
      std::memcpy(image_ + kPageBytes + at, &word, sizeof word);
    }
    const Result<Snapshot> snapshot = read();
    ASSERT_TRUE(snapshot.ok());
    for (const TrailSnapshot& trail : snapshot->trails) {
      LineWriter line;
      describe_trail(trail.head, monotonic_ns(), line);
      trail.records.show(kRecords, monotonic_ns(), [](const LineWriter& each) {
        for (const char c : each.view()) ASSERT_TRUE(c >= 0x20 && c < 0x7f) << "seed";
      });
    }
  }
}

TEST_F(FlightReader, ARecordThatIsBeingWrittenIsCountedNotShown) {
  writers_[0].begin(1, {.operation = "Whole"});
  writers_[0].begin(2, {.operation = "Torn"});
  *reinterpret_cast<std::uint64_t*>(&trail_of(image_, 0).records[3]) |= 1;
  const Result<Snapshot> snapshot = read();
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->trails[0].records.count, 2u);
  EXPECT_EQ(snapshot->trails[0].records.torn, 1u);
  *reinterpret_cast<std::uint64_t*>(&trail_of(image_, 1).head) |= 1;
  EXPECT_EQ(read()->torn_heads, 1u);
}

TEST_F(FlightReader, NothingTornIsReadFromAProcessThatWrites) {
  const int reads = test::by_tier(30, 3000);
  std::atomic<bool> over{false};
  std::array<std::thread, kUsed> threads;
  for (std::size_t i = 0; i < kUsed; ++i) {
    threads[i] = std::thread([&, i] {
      for (std::uint32_t call = 0; !over; ++call) {
        const std::string text(1 + call % 40, static_cast<char>('a' + call % 26));
        writers_[i].begin(call, {.operation = "Call",
                                 .count = call,
                                 .version = call,
                                 .root = 0,
                                 .datatype = 1,
                                 .detail = text});
        writers_[i].waits(call, {.peer = 1, .host = text, .purpose = text, .seconds = 0.5});
        writers_[i].end(call, Code::kSuccess, call, call);
      }
    });
  }
  std::size_t seen = 0;
  // Until something was there: on a busy machine the threads may begin later.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < reads || (seen == 0 && std::chrono::steady_clock::now() < until); ++i) {
    const Result<Snapshot> snapshot = read();
    ASSERT_TRUE(snapshot.ok());
    for (const TrailSnapshot& trail : snapshot->trails) {
      for (std::size_t at = 0; at < trail.records.count; ++at) {
        const Record& record = trail.records.records[at];
        if (record.call == kNoCall) continue;
        ++seen;
        Text<64> expected{};
        std::memset(expected.data(), 'a' + static_cast<int>(record.call % 26),
                    1 + record.call % 40);
        ASSERT_EQ(record.count, record.call);
        ASSERT_EQ(record.detail, expected);
        if (record.state == RecordState::kDone) {
          ASSERT_EQ(record.bytes_received, record.call);
        }
      }
    }
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(seen, 0u);
}

// Between the search and the look a process may end.
TEST_F(FlightReader, RecordsThatHaveGoneAreNotSpokenOf) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("sparcl-gone-{}", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string damaged = folder / "damaged";
  std::ofstream(damaged) << "short";
  std::filesystem::permissions(
      damaged, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  const std::vector<SeenRecord> seen =
      read_records({{folder / "gone", ::geteuid(), 1}, {damaged, ::geteuid(), 2}});
  std::filesystem::remove_all(folder);
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].path.pid, 2);
  EXPECT_THAT(seen[0].snapshot.status().message(), HasSubstr("too short"));
}

TEST_F(FlightReader, ADumpShowsEveryCommunicator) {
  writers_[0].begin(1, {.operation = "BroadcastDelta"});
  writers_[0].waits(1, {.peer = 1, .host = "host h\033[2J", .purpose = "a vote", .seconds = 1e-9});
  std::FILE* out = std::tmpfile();
  dump(::fileno(out), image_);
  std::rewind(out);
  std::string text(10'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), out));
  std::fclose(out);
  EXPECT_THAT(text, AllOf(HasSubstr("comm 0: rank 0 of 2"), HasSubstr("comm 1: rank 1 of 2"),
                          HasSubstr("call 1 BroadcastDelta"),
                          HasSubstr("waits for rank 1 (host h?[2J)"), Not(HasSubstr("\033"))));
}

}  // namespace
}  // namespace sparcl::flight
