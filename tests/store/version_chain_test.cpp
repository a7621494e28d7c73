// A chain of versions in a store: what was published comes back, whatever is held, damaged, killed
// or written by two at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <random>

#include "src/store/chain_reader.hpp"
#include "src/store/chain_writer.hpp"
#include "src/store/directory_store.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::store {
namespace {

using replication::HeldTensors;
using test::TempFolder;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

const model::Schema kTensors{{"embedding", DataType::kBfloat16, {300, 1000}},
                             {"bias", DataType::kFloat32, {777}},
                             {"none", DataType::kFloat32, {0}},
                             {"ids", DataType::kInt64, {100}}};

ChainState state_of(const HeldTensors& tensors) {
  const replication::ReplicatedState view = tensors.view();
  ChainState state;
  state.map = view.map;
  state.schema = view.schema;
  state.schema_hash = view.schema_hash;
  state.arrays = view.arrays;
  state.kernels = view.kernels;
  return state;
}

std::vector<std::byte> content(HeldTensors& tensors) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < tensors.schema().size(); ++i) {
    const auto bytes = tensors.tensor(i);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// A store that fails from some call on, as disks and networks do.
class FailingStore final : public ObjectStore {
 public:
  explicit FailingStore(ObjectStore& store) : store_(store) {}
  int calls_left = -1;  // -1: it does not fail

  StoreCapabilities capabilities() const override { return store_.capabilities(); }
  std::string location_of(std::string_view key) const override { return store_.location_of(key); }
  Result<std::optional<ObjectInfo>> look(const std::string& key) override {
    if (fails()) return failed(key);
    return store_.look(key);
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    if (fails()) return failed(key);
    return store_.read_all(key, max_bytes);
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    if (fails()) return failed(key);
    return store_.read(key, first, into);
  }
  // Some of them have happened: their answer is lost.
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override {
    if (!fails()) return store_.put_if_absent(key, bytes);
    if (loses_answers) (void)store_.put_if_absent(key, bytes);
    return failed(key);
  }
  Status replace(const std::string& key, Pieces bytes) override {
    if (fails()) return failed(key);
    return store_.replace(key, bytes);
  }
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override {
    if (fails()) return failed(prefix);
    return store_.list(prefix, visit);
  }
  Status remove(const std::string& key) override { return store_.remove(key); }

  bool loses_answers = false;

 private:
  bool fails() { return calls_left >= 0 && calls_left-- == 0 ? (calls_left = 0, true) : false; }
  Status failed(const std::string& key) const {
    return Status(Code::kSystemError, store_.location_of(key) + ": the disk fails");
  }

  ObjectStore& store_;
};

class ChainOfVersions : public testing::Test {
 protected:
  ChainOfVersions() : store(open()), chain(*store) { trained.change(1, 2); }
  std::unique_ptr<ObjectStore> open() const {
    return std::move(*DirectoryStore::open(folder / "store"));
  }
  std::unique_ptr<ChainWriter> writer(ObjectStore& into) {
    Result<std::unique_ptr<ChainWriter>> made = ChainWriter::open(into, state_of(trained), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }
  void publish(ChainWriter& by, std::uint64_t version) {
    const Status status = by.publish(version);
    ASSERT_TRUE(status.ok()) << status.message();
    contents.push_back(content(trained));
    versions.push_back({version, by.newest()->target_hash});
  }
  // Versions 1, 3, 5, ... of which one in four changes nothing.
  void publish_all(int count) {
    const auto by = writer(*store);
    for (int i = 0; i < count; ++i) {
      if (i % 4 != 3) trained.change(static_cast<std::uint64_t>(i) + 10, i % 5 == 0 ? 20 : 3000);
      publish(*by, 2 * static_cast<std::uint64_t>(i) + 1);
    }
  }
  void set_to(HeldTensors& tensors, std::size_t i) const {
    std::size_t at = 0;
    for (std::size_t tensor = 0; tensor < tensors.schema().size(); ++tensor) {
      const auto bytes = tensors.tensor(tensor);
      std::copy_n(contents[i].begin() + static_cast<std::ptrdiff_t>(at), bytes.size(),
                  bytes.begin());
      at += bytes.size();
    }
  }

  TempFolder folder;
  std::unique_ptr<ObjectStore> store;
  Chain chain;
  WriterOptions options{4};
  HeldTensors trained{kTensors};
  std::vector<std::vector<std::byte>> contents;
  std::vector<model::HeldVersion> versions;
};

TEST_F(ChainOfVersions, EachVersionComesBackFromWhateverIsHeld) {
  publish_all(11);
  for (std::size_t to = 0; to < versions.size(); ++to) {
    const VersionRecord target = *chain.record(to + 1);
    EXPECT_EQ(target.version, versions[to].version);
    for (int from = -1; from < static_cast<int>(versions.size()); ++from) {
      HeldTensors held(kTensors);
      held.change(99, 1);
      std::optional<model::HeldVersion> what;
      if (from >= 0) {
        set_to(held, static_cast<std::size_t>(from));
        what = versions[static_cast<std::size_t>(from)];
      }
      const Status status = restore(chain, target, what, state_of(held));
      ASSERT_TRUE(status.ok()) << from << " to " << to << ": " << status.message();
      ASSERT_TRUE(content(held) == contents[to]) << from << " to " << to;
    }
  }
}

TEST_F(ChainOfVersions, AReaderFetchesTheFewestBytes) {
  publish_all(11);
  const VersionRecord newest = **chain.newest();
  EXPECT_EQ(newest.number, 11U);
  const auto bytes_from = [&](std::size_t held) {
    const std::vector<ChainStep> steps = *chain.steps_to(newest, versions[held]);
    std::uint64_t bytes = 0;
    for (const ChainStep& step : steps) bytes += step.object().bytes;
    return bytes;
  };
  EXPECT_TRUE(chain.steps_to(newest, versions.back())->empty());
  EXPECT_EQ(chain.steps_to(newest, versions[9])->size(), 1U);
  EXPECT_FALSE(chain.steps_to(newest, versions[9])->front().is_anchor);
  const std::vector<ChainStep> cold = *chain.steps_to(newest, std::nullopt);
  EXPECT_TRUE(cold.front().is_anchor);
  std::uint64_t cold_bytes = 0;
  for (const ChainStep& step : cold) cold_bytes += step.object().bytes;
  for (std::size_t held = 0; held < versions.size(); ++held)
    EXPECT_LE(bytes_from(held), cold_bytes) << held;
}

TEST_F(ChainOfVersions, AWriterGoesOnWhereTheLastOneEnded) {
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
  EXPECT_TRUE(second->newest()->delta && !second->newest()->anchor);
  for (const std::uint64_t version : {0U, 5U, 7U})
    EXPECT_EQ(second->publish(version).code(), Code::kInvalidArgument) << version;
  HeldTensors held(kTensors);
  ASSERT_TRUE(restore(chain, **chain.newest(), std::nullopt, state_of(held)).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(ChainOfVersions, OfTwoWritersOneIsStoppedByName) {
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
  ASSERT_TRUE(restore(chain, **chain.newest(), std::nullopt, state_of(held)).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(ChainOfVersions, DamageIsNamedAndLeavesWhatIsHeld) {
  publish_all(6);
  const VersionRecord newest = **chain.newest();
  std::vector<std::string> keys;
  ASSERT_TRUE(store
                  ->list("",
                         [&](const ObjectInfo& each) {
                           keys.push_back(each.key);
                           return true;
                         })
                  .ok());
  int refused = 0;
  for (const std::string& key : keys) {
    const std::string path = store->location_of(key);
    std::string bytes;
    {
      std::ifstream in(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    for (const char* how : {"changed", "cut", "gone"}) {
      std::string damaged = bytes;
      if (*how == 'c' && how[1] == 'h') damaged[damaged.size() / 2] ^= 0x40;
      if (*how == 'c' && how[1] == 'u') damaged.resize(damaged.size() / 2);
      ASSERT_TRUE(store->remove(key).ok());
      if (*how != 'g') std::ofstream(path, std::ios::binary) << damaged;
      HeldTensors held(kTensors);
      held.change(7, 1);
      const std::vector<std::byte> before = content(held);
      const Status status = restore(chain, newest, std::nullopt, state_of(held));
      if (status.ok()) {
        EXPECT_TRUE(content(held) == contents.back()) << key;
      } else {
        ++refused;
        EXPECT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kUnsupported)) << status.message();
        EXPECT_THAT(std::string(status.message()), HasSubstr(path));
        EXPECT_TRUE(content(held) == before) << key;
      }
    }
    std::ofstream(path, std::ios::binary) << bytes;
  }
  EXPECT_GE(refused, 3 * 2) << "what the newest version needs";
}

TEST_F(ChainOfVersions, OtherTensorsAreRefused) {
  publish_all(1);
  HeldTensors other({{"embedding", DataType::kBfloat16, {300, 1001}}});
  EXPECT_EQ(restore(chain, **chain.newest(), std::nullopt, state_of(other)).code(),
            Code::kMismatch);
  EXPECT_EQ(ChainWriter::open(*store, state_of(other), options).status().code(), Code::kMismatch);
}

// Wherever a store fails, with or without the effect of the call: the next try publishes.
TEST_F(ChainOfVersions, AfterAFailureTheNextTryPublishes) {
  for (const bool loses_answers : {false, true}) {
    FailingStore failing(*store);
    failing.loses_answers = loses_answers;
    auto by = writer(failing);
    std::uint64_t version = loses_answers ? 1000 : 1;
    int failed = 0;
    for (int calls = 0; calls < 8; ++calls, ++version) {
      trained.change(version, 500);
      failing.calls_left = calls;
      const Status status = by->publish(version);
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
      ASSERT_TRUE(restore(chain, newest, std::nullopt, state_of(held)).ok());
      ASSERT_TRUE(content(held) == content(trained)) << calls;
    }
    EXPECT_EQ(failed, 2) << "the delta or anchor, and the record";
  }
}

// Killed at any point: the last committed version is there, whole, and another writer goes on.
TEST_F(ChainOfVersions, AKilledWriterLeavesTheLastCommittedVersion) {
  std::mt19937 random(4);
  std::uint64_t least = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const auto by = writer(*store);
      for (std::uint64_t version = by->newest() ? by->newest()->version + 1 : 1;; ++version) {
        trained.change(version, 1000);
        // Each version says what it is: its number in a tensor.
        std::memcpy(trained.tensor(3).data(), &version, sizeof version);
        if (!by->publish(version).ok()) ::_exit(1);
      }
    }
    ::usleep(2000 + random() % 30000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    const std::optional<VersionRecord> newest = *chain.newest();
    if (!newest) continue;
    EXPECT_GE(newest->version, least);
    least = newest->version;
    HeldTensors held(kTensors);
    const Status restored = restore(chain, *newest, std::nullopt, state_of(held));
    ASSERT_TRUE(restored.ok()) << restored.message();
    std::uint64_t says = 0;
    std::memcpy(&says, held.tensor(3).data(), sizeof says);
    EXPECT_EQ(says, newest->version);
  }
  EXPECT_GT(least, 0U);
}

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
  const std::string text = serialise(record);
  const auto parse = [](const std::string& from) {
    return parse_record(std::as_bytes(std::span(from)));
  };
  EXPECT_EQ(*parse(text), record);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string mutated = text;
    for (std::uint64_t change = random() % 3 + 1; change > 0; --change)
      mutated[random() % mutated.size()] = static_cast<char>(random());
    const Result<VersionRecord> read = parse(mutated);
    if (read.ok()) continue;
    EXPECT_THAT(read.status().code(), AnyOf(Code::kCorrupt, Code::kUnsupported));
  }
  EXPECT_THAT(std::string(parse("{\"format\": 2}").status().message()),
              AllOf(HasSubstr("format is 2"), HasSubstr("update the library")));
  EXPECT_EQ(parse(std::string(kMaxRecordBytes + 1, ' ')).status().code(), Code::kCorrupt);
  for (const char* key : {"../x", "/x", ""}) {
    record.delta->key = key;
    EXPECT_EQ(parse(serialise(record)).status().code(), Code::kCorrupt) << key;
  }
}

}  // namespace
}  // namespace sparcl::store
