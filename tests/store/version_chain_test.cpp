// A chain of versions in a store: what was published comes back, whatever is held, damaged, killed
// or written by two at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <random>

#include "src/store/stored_object.hpp"
#include "tests/store/chain_support.hpp"

namespace sparcl::store {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_P(ChainInAStore, EachVersionComesBackFromWhateverIsHeld) {
  publish_all(11);
  for (std::size_t to = 0; to < versions.size(); ++to) {
    const VersionRecord target = *chain.record(to + 1);
    EXPECT_EQ(target.version, versions[to].version);
    for (int from = -1; from < static_cast<int>(versions.size()); ++from) {
      HeldTensors held(kTensors);
      held.change(99, 1);
      spare_bytes =
          (static_cast<int>(to) + from) % 2 == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
      std::optional<model::HeldVersion> what;
      if (from >= 0) {
        set_to(held, static_cast<std::size_t>(from));
        what = versions[static_cast<std::size_t>(from)];
      }
      const Status status = bring(held, target, what);
      ASSERT_TRUE(status.ok()) << from << " to " << to << ": " << status.message();
      ASSERT_TRUE(content(held) == contents[to]) << from << " to " << to;
    }
  }
}

TEST_P(ChainInAStore, AReaderFetchesTheFewestBytes) {
  publish_all(11);
  const VersionRecord newest = **chain.newest();
  EXPECT_EQ(newest.number, 11U);
  const auto bytes_from = [&](std::size_t held) {
    const std::vector<ChainStep> steps = *steps_to(chain, newest, {.held = versions[held]});
    std::uint64_t bytes = 0;
    for (const ChainStep& step : steps) bytes += step.object.bytes;
    return bytes;
  };
  EXPECT_TRUE(steps_to(chain, newest, {.held = versions.back()})->empty());
  EXPECT_EQ(steps_to(chain, newest, {.held = versions[9]})->size(), 1U);
  EXPECT_FALSE(steps_to(chain, newest, {.held = versions[9]})->front().is_anchor());
  const std::vector<ChainStep> cold = *steps_to(chain, newest, {});
  EXPECT_TRUE(cold.front().is_anchor());
  std::uint64_t cold_bytes = 0;
  for (const ChainStep& step : cold) cold_bytes += step.object.bytes;
  for (std::size_t held = 0; held < versions.size(); ++held)
    EXPECT_LE(bytes_from(held), cold_bytes) << held;
}

TEST_P(ChainInAStore, AnchorsStandWhereSkipsBegin) {
  options.anchor_every = 16;
  {
    const auto by = writer(*store);
    for (std::uint64_t version = 1; version <= 42; ++version) {
      trained.change(version, 5000);  // few: the deltas do not grow as large as an anchor
      publish(*by, version);
    }
  }
  std::vector<std::uint64_t> anchors;
  for (std::uint64_t number = 1; number <= 42; ++number) {
    if (number == 1 || *chain.shortcut(number, 0)) anchors.push_back(number);
  }
  EXPECT_THAT(anchors, ElementsAre(1U, 16U, 32U));
  const std::vector<ChainStep> cold = *steps_to(chain, **chain.newest(), {});
  EXPECT_EQ(cold.size(), 4U) << "the anchor, a skip to 40, and two deltas";
}

TEST_P(ChainInAStore, AWriterGoesOnWhereTheLastOneEnded) {
  EXPECT_FALSE(chain.newest()->has_value());
  {
    const auto first = writer(*store);
    publish(*first, 1);
    trained.change(2, 1000);
    publish(*first, 2);
  }
  trained.change(3, 1000);
  const auto second = writer(*store);
  EXPECT_EQ(second->newest()->version, 2U);
  publish(*second, 7);
  EXPECT_TRUE(second->newest()->delta);
  for (const std::uint64_t version : {0U, 5U, 7U})
    EXPECT_EQ(second->publish(version).code(), Code::kInvalidArgument) << version;
  HeldTensors held(kTensors);
  ASSERT_TRUE(bring(held, **chain.newest(), std::nullopt).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_P(ChainInAStore, OfTwoWritersOneIsStoppedByName) {
  const auto first = writer(*store), second = writer(*store);
  publish(*first, 1);
  trained.change(5, 100);
  const Status stopped = second->publish(2);
  EXPECT_EQ(stopped.code(), Code::kStale) << stopped.message();
  EXPECT_THAT(std::string(stopped.message()), HasSubstr("another writer has published version 1"));
  for (const std::uint64_t version : {5U, 6U, 7U})
    EXPECT_EQ(second->publish(version).code(), Code::kStale) << "it stays stopped";
  EXPECT_EQ((*chain.newest())->version, 1U);
  publish(*first, 3);
  HeldTensors held(kTensors);
  ASSERT_TRUE(bring(held, **chain.newest(), std::nullopt).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_P(ChainInAStore, DamageIsNamedAndLeavesWhatIsHeld) {
  publish_all(6);
  const VersionRecord newest = **chain.newest();
  const std::vector<std::string> all_keys = keys();
  int refused = 0;
  for (const std::string& key : all_keys) {
    const std::string path = store->location_of(key);
    const std::vector<std::byte> bytes = **store->read_all(key, 1 << 24);
    const auto write = [&](const std::vector<std::byte>& content) {
      const std::array pieces{std::span<const std::byte>(content)};
      return store->replace(key, pieces).ok();
    };
    for (const char* how : {"changed", "cut", "gone"}) {
      std::vector<std::byte> damaged = bytes;
      if (*how == 'c' && how[1] == 'h') damaged[damaged.size() / 2] ^= std::byte{0x40};
      if (*how == 'c' && how[1] == 'u') damaged.resize(damaged.size() / 2);
      ASSERT_TRUE(store->remove(key).ok());
      if (*how != 'g') {
        ASSERT_TRUE(write(damaged));
      }
      HeldTensors held(kTensors);
      held.change(7, 1);
      const std::vector<std::byte> before = content(held);
      const Status status = bring(held, newest, std::nullopt);
      if (status.ok()) {
        EXPECT_TRUE(content(held) == contents.back()) << key;
      } else {
        ++refused;
        EXPECT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kUnsupported)) << status.message();
        // A record that is changed may be one of other objects.
        const bool names_others = *how == 'c' && (key[0] == 'c' || key[1] == 'h');
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(names_others ? store->location_of("") : path));
        EXPECT_TRUE(content(held) == before) << key;
      }
    }
    ASSERT_TRUE(write(bytes));
  }
  EXPECT_GE(refused, 3 * 2) << "what the newest version needs";
}

// An anchor alone is written over a copy, or in place where memory is scarce.
TEST_P(ChainInAStore, ADamagedAnchorLeavesWhatIsHeld) {
  publish_all(1);
  const VersionRecord record = *chain.record(1);
  const std::vector<std::byte> bytes = **store->read_all(record.anchor->key, 1 << 24);
  for (const std::size_t at : {std::size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    std::vector<std::byte> damaged = bytes;
    damaged[at] ^= std::byte{0x40};
    const std::array pieces{std::span<const std::byte>(damaged)};
    ASSERT_TRUE(store->replace(record.anchor->key, pieces).ok());
    for (const std::uint64_t spare : {std::uint64_t{0}, UINT64_MAX}) {
      spare_bytes = spare;
      HeldTensors held(kTensors);
      held.change(7, 1);
      const std::vector<std::byte> before = content(held);
      const Status status = bring(held, record);
      EXPECT_EQ(status.code(), Code::kCorrupt);
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(store->location_of(record.anchor->key)), HasSubstr("SHA-256")));
      EXPECT_TRUE(content(held) == before) << at << ", " << spare;
    }
  }
}

TEST_P(ChainInAStore, OtherTensorsAreRefused) {
  publish_all(1);
  HeldTensors other({{"embedding", DataType::kBfloat16, {300, 1001}}});
  EXPECT_EQ(bring(other, **chain.newest(), std::nullopt).code(), Code::kMismatch);
  EXPECT_EQ(ChainWriter::open(*store, state_of(other), options).status().code(), Code::kMismatch);
}

// Wherever a store fails, with or without the effect of the call: the next try publishes.
TEST_P(ChainInAStore, AfterAFailureTheNextTryPublishes) {
  for (const bool loses_answers : {false, true}) {
    FailingStore failing(*store);
    failing.loses_answers = loses_answers;
    auto by = writer(failing);
    std::uint64_t version = loses_answers ? 1000 : 1;
    int failed = 0;
    for (int calls = 0; calls < 8; ++calls, ++version) {
      trained.change(version, 500);
      by->finish();
      failing.calls_left = calls;
      const Status status = by->publish(version);
      by->finish();  // anchors and skips may fail, too, which is no error
      failing.calls_left = -1;
      if (!status.ok()) {
        ++failed;
        EXPECT_EQ(status.code(), Code::kSystemError) << status.message();
        if (calls % 2 == 1) trained.change(version + 500, 500);  // training went on
        const std::uint64_t next = calls % 2 == 1 ? ++version : version;
        const Status again = by->publish(next);
        ASSERT_TRUE(again.ok()) << again.message();
      }
      HeldTensors held(kTensors);
      const VersionRecord newest = **chain.newest();
      EXPECT_EQ(newest.version, version);
      ASSERT_TRUE(bring(held, newest, std::nullopt).ok());
      ASSERT_TRUE(content(held) == content(trained)) << calls;
    }
    if (options.single_writer) {
      EXPECT_GT(failed, 2) << "records are read back, too";
    } else {
      EXPECT_EQ(failed, 3) << "the delta or anchor, the record, and the look at what is pruned";
    }
  }
}

// Killed at any point: the last committed version is there, whole, and another writer goes on.
TEST_P(ChainInAStore, AKilledWriterLeavesTheLastCommittedVersion) {
  std::mt19937 random(4);
  std::uint64_t least = 0;
  // On a busy machine the first rounds may be too short for a version.
  for (int round = 0; round < 12 || (least == 0 && round < 60); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::unique_ptr<ObjectStore> own = open();
      const auto by = writer(*own);
      for (std::uint64_t version = by->newest() ? by->newest()->version + 1 : 1;; ++version) {
        trained.change(version, 1000);
        // Each version says what it is: its number in a tensor.
        std::memcpy(trained.tensor(3).data(), &version, sizeof version);
        if (!by->publish(version).ok()) ::_exit(1);
      }
    }
    ::usleep(2000 + static_cast<useconds_t>(random() % 30000 * test::slowness_of_server() *
                                            (1 + round / 12)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    const std::optional<VersionRecord> newest = *chain.newest();
    if (!newest) continue;
    EXPECT_GE(newest->version, least);
    least = newest->version;
    HeldTensors held(kTensors);
    const Status restored = bring(held, *newest, std::nullopt);
    ASSERT_TRUE(restored.ok()) << restored.message();
    std::uint64_t says = 0;
    std::memcpy(&says, held.tensor(3).data(), sizeof says);
    EXPECT_EQ(says, newest->version);
  }
  EXPECT_GT(least, 0U);
}

template <class Record>
void expect_only_itself(const Record& record, Result<Record> (*parse)(std::span<const std::byte>)) {
  const std::string text = serialise(record);
  const auto read = [&](const std::string& from) { return parse(std::as_bytes(std::span(from))); };
  EXPECT_EQ(*read(text), record);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    std::string mutated = text;
    for (std::uint64_t change = random() % 3 + 1; change > 0; --change)
      mutated[random() % mutated.size()] = static_cast<char>(random());
    const Result<Record> other = read(mutated);
    if (other.ok()) continue;
    EXPECT_THAT(other.status().code(), AnyOf(Code::kCorrupt, Code::kUnsupported));
  }
  EXPECT_THAT(std::string(read("{\"format\": 2}").status().message()),
              AllOf(HasSubstr("format is 2"), HasSubstr("update the library")));
  EXPECT_EQ(read(std::string(kMaxRecordBytes + 1, ' ')).status().code(), Code::kCorrupt);
}

INSTANTIATE_TEST_SUITE_P(Bodies, ChainInAStore, testing::ValuesIn(test::store_bodies()),
                         [](const auto& body) { return test::name_of(body.param); });

TEST(VersionRecords, ComeBackAndAnyOtherBytesAreRefused) {
  VersionRecord record;
  record.number = 7;
  record.version = 12;
  record.base_version = 11;
  record.writer = std::string(32, 'a');
  record.target_hash = {1, 2};
  record.base_hash = {3, 4};
  record.schema = {"schemas/x", 10, {}};
  record.delta = {"deltas/y", 1000, {}};
  record.newest_anchor = 5;
  expect_only_itself(record, parse_record);
  record.anchor_index = {"anchors/z.index", 60, {}};
  expect_only_itself(record, parse_record);
  Shortcut shortcut{72, 8, {100, {1, 2}}, {9, {3, 4}}, {"skips/x", 77, {}}};
  expect_only_itself(shortcut, parse_shortcut);
  shortcut.index = {"anchors/x.index", 60, {}};
  expect_only_itself(shortcut, parse_shortcut);
  for (const char* key : {"../x", "/x", ""}) {
    record.delta->key = shortcut.object.key = key;
    const std::string texts[] = {serialise(record), serialise(shortcut)};
    EXPECT_EQ(parse_record(std::as_bytes(std::span(texts[0]))).status().code(), Code::kCorrupt);
    EXPECT_EQ(parse_shortcut(std::as_bytes(std::span(texts[1]))).status().code(), Code::kCorrupt);
  }
}

}  // namespace
}  // namespace sparcl::store
