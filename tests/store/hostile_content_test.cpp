// What a store says is hostile: each lie is refused and named before memory is taken or an object
// is opened, and tensors stay as they were.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/store/compaction.hpp"
#include "src/store/pruned_marks.hpp"
#include "src/store/store_content.hpp"
#include "tests/store/chain_support.hpp"
#include "tests/store/forwarding_store.hpp"

namespace sparcl::store {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class HostileContent : public ChainOfVersions {
 protected:
  std::string text_of(const std::string& key) const {
    const auto bytes = **store->read_all(key, 1 << 24);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  Json json_of(const std::string& key) const { return Json::parse(text_of(key)); }
  void write(const std::string& key, const std::string& text) const {
    const auto bytes = std::as_bytes(std::span(text));
    ASSERT_TRUE(store->replace(key, {&bytes, 1}).ok());
  }
  void write(const std::string& key, const Json& json) const { write(key, json.dump()); }

  // Fetches the version of the record into tensors that hold another one. They stay.
  Status fetch(std::uint64_t number, std::optional<std::size_t> from = {}) {
    HeldTensors held(kTensors);
    held.change(99, 1);
    std::optional<model::HeldVersion> what;
    if (from) {
      set_to(held, *from);
      what = versions[*from];
    }
    const std::vector<std::byte> before = content(held);
    Chain own(*store);
    const Result<VersionRecord> target = own.record(number);
    if (!target.ok()) return target.status();
    const auto steps = steps_to(own, *target, {.held = what});
    if (!steps.ok()) return steps.status();
    const Status status = restore(own, *target, *steps, what, state_of(held));
    EXPECT_TRUE(content(held) == (status.ok() ? contents[number - 1] : before));
    return status;
  }
  void expect_refused(const Status& status, const std::string& key, const std::string& why) const {
    EXPECT_EQ(status.code(), Code::kCorrupt) << key << ": " << why;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(store->location_of(key)), HasSubstr(why)));
  }
};

TEST_F(HostileContent, NamesThatLeadElsewhereAreNotOpened) {
  publish_all(6);  // anchors: 1, 5
  const std::string record = commit_key(4), shortcut = shortcut_key(5, 0);
  const Json sound = json_of(record), sound_shortcut = json_of(shortcut);
  for (const char* name : {"../../../../etc/passwd", "deltas/../../../etc/passwd", "/etc/passwd",
                           "deltas/./x", "deltas//x", "deltas/.new-1", "deltas/a\\b", "deltas/a\nb",
                           "commits/1", "leases/x", "pruned", "", "deltas", "deltas/"}) {
    for (const char* field : {"delta", "schema"}) {
      Json forged = sound;
      forged[field]["key"] = name;
      write(record, forged);
      expect_refused(fetch(4, 2), record, std::string("'") + field + "' is not");
    }
    Json forged = sound_shortcut;
    forged["object"]["key"] = name;
    write(shortcut, forged);
    EXPECT_EQ(chain.shortcut(5, 0).status().code(), Code::kCorrupt) << name;
  }
}

TEST_F(HostileContent, RecordsOfOtherNumbersAreRefused) {
  publish_all(16);
  write(commit_key(6), text_of(commit_key(5)));
  expect_refused(fetch(6), commit_key(6), "it is record 5");
  write(commit_key(17), text_of(commit_key(3)));
  EXPECT_EQ(Chain(*store).newest().status().code(), Code::kCorrupt);
  write(shortcut_key(16, 8), text_of(shortcut_key(9, 0)));
  EXPECT_EQ(chain.shortcut(16, 8).status().code(), Code::kCorrupt);
  EXPECT_TRUE(fetch(16, 7).ok()) << "by other objects";
}

// An older record of the same number, signed or not, does not join the others.
TEST_F(HostileContent, AForgedHistoryDoesNotJoin) {
  publish_all(6);
  Json forged = json_of(commit_key(3));
  const Json other = json_of(commit_key(2));
  forged["target_hash"] = other["target_hash"];
  write(commit_key(3), forged);
  EXPECT_EQ(fetch(3).code(), Code::kCorrupt);
  EXPECT_EQ(fetch(5, 1).code(), Code::kSuccess) << "from its own anchor";
  std::size_t named = 0;
  ASSERT_TRUE(verify_content(chain, nullptr, [&](const Damage& each) {
                EXPECT_TRUE(each.location.ends_with(commit_key(3))) << each.location;
                EXPECT_THAT(each.what, HasSubstr("its object leads to version 5"));
                ++named;
              }).ok());
  EXPECT_EQ(named, 1U);
}

TEST_F(HostileContent, ANoteOfAnotherNumberMisleadsNobody) {
  publish_all(6);
  for (const char* text :
       {"1\n", "4\n", "0\n", "7\n", "18446744073709551615\n", "-3", "99999999999999999999", "x"}) {
    write(kNewest, std::string(text));
    Chain reader(*store);
    const auto newest = reader.newest();
    ASSERT_TRUE(newest.ok() && *newest) << text << newest.status().message();
    EXPECT_EQ((*newest)->number, 6U) << text;
    EXPECT_EQ((*chain.newest())->number, 6U) << text;
  }
  // What was seen stays the newest, when the store shows less.
  ASSERT_TRUE(store->remove(commit_key(6)).ok());
  write(kNewest, std::string("5\n"));
  EXPECT_EQ((*chain.newest())->number, 6U);
  // Names that are no records.
  write("commits/9", std::string("x"));
  write("commits/00000000000000000009-1", std::string("x"));
  write(kNewest, std::string("x"));
  EXPECT_EQ((*Chain(*store).newest())->number, 5U);
}

TEST_F(HostileContent, NoCycleIsFollowed) {
  publish_all(16);
  const std::string record = commit_key(14), shortcut = shortcut_key(16, 8);
  const Json sound = json_of(record), sound_shortcut = json_of(shortcut);
  for (const std::uint64_t anchor : {std::uint64_t{0}, std::uint64_t{15}, UINT64_MAX}) {
    Json forged = sound;
    forged["newest_anchor"] = anchor;
    write(record, forged);
    expect_refused(fetch(14, 12), record, "'newest_anchor'");
  }
  Json itself = sound;
  itself["newest_anchor"] = 14;  // where none is
  write(record, itself);
  EXPECT_TRUE(fetch(14).ok()) << "from where the chain begins";
  EXPECT_TRUE(fetch(14, 12).ok());
  for (const std::uint64_t from : {std::uint64_t{16}, std::uint64_t{17}, UINT64_MAX}) {
    Json forged = sound_shortcut;
    forged["from"] = from;
    write(shortcut, forged);
    EXPECT_EQ(chain.shortcut(16, 8).status().code(), Code::kCorrupt);
  }
  // A skip whose base is another version than its record says.
  Json forged = sound_shortcut;
  forged["base_version"] = versions[6].version;
  write(shortcut, forged);
  const auto steps = steps_to(chain, *chain.record(16), {.held = versions[7]});
  for (const ChainStep& step : *steps) EXPECT_NE(step.object.key, sound_shortcut["object"]["key"]);
  EXPECT_TRUE(fetch(16, 7).ok());
}

// Sizes are checked against what the tensors can need before memory is taken.
TEST_F(HostileContent, HugeSizesTakeNoMemory) {
  publish_all(6);
  const Json record = json_of(commit_key(4)), anchor = json_of(shortcut_key(5, 0));
  const std::string delta = record["delta"]["key"];
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 40, std::uint64_t{1} << 63, UINT64_MAX - 1, UINT64_MAX}) {
    Json forged = record;
    forged["delta"]["bytes"] = bytes;
    write(commit_key(4), forged);
    expect_refused(fetch(4, 2), delta, "no update of these tensors has more");
    std::vector<std::string> damaged;
    ASSERT_TRUE(verify_content(chain, nullptr, [&](const Damage& each) {
                  damaged.push_back(each.what);
                }).ok());
    EXPECT_EQ(damaged.size(), 1U);
    write(commit_key(4), record);
    forged = anchor;
    forged["object"]["bytes"] = bytes;
    write(shortcut_key(5, 0), forged);
    EXPECT_TRUE(fetch(5, 3).ok());
    EXPECT_EQ(fetch(5).code(), Code::kCorrupt);
    write(shortcut_key(5, 0), anchor);
    forged = json_of(commit_key(6));
    forged["schema"]["bytes"] = bytes;
    write(commit_key(6), forged);
    EXPECT_EQ(compact(chain, kernels::cpu_kernels()).status().code(), Code::kCorrupt);
    forged["schema"]["bytes"] = record["schema"]["bytes"];
    write(commit_key(6), forged);
    chain.forget();
  }
}

// Nothing counts from one record to another one that is far away.
TEST_F(HostileContent, HugeNumbersEnd) {
  publish_all(3);
  for (const std::uint64_t number : {std::uint64_t{1} << 61, UINT64_MAX - 1, UINT64_MAX}) {
    Json forged = json_of(commit_key(3));
    forged["number"] = number;
    write(commit_key(number), forged);
    write(kNewest, std::to_string(number) + "\n");
    Chain reader(*store);
    const auto newest = reader.newest();
    const Status status = newest.ok() ? steps_to(reader, **newest, {}).status() : newest.status();
    expect_refused(status, "commits", newest.ok() ? "it is missing" : "'number'");
    std::size_t named = 0;
    const auto report = verify_content(chain, nullptr, [&](const Damage&) { ++named; });
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_GE(report->versions, 3U);
    EXPECT_GE(named + report->remarks.size(), 1U);
    EXPECT_LT(named, 10U);
    ASSERT_TRUE(store->remove(commit_key(number)).ok());
  }
}

TEST_F(HostileContent, SwappedObjectsAreNamed) {
  publish_all(7);
  Json second = json_of(commit_key(2)), third = json_of(commit_key(3));
  const std::string at = second["delta"]["key"], other = third["delta"]["key"];
  // The bytes: SHA-256 tells.
  const std::string bytes = text_of(at), others = text_of(other);
  write(at, others);
  EXPECT_EQ(fetch(2, 0).code(), Code::kCorrupt);
  write(at, bytes);
  // The names: the update says what it leads to.
  std::swap(second["delta"], third["delta"]);
  write(commit_key(2), second);
  write(commit_key(3), third);
  EXPECT_THAT(std::string(fetch(2, 0).message()), AllOf(HasSubstr("version 3"), HasSubstr(other)));
  // An anchor in place of a delta, and a delta in place of an anchor.
  Json last = json_of(commit_key(6)), anchor = json_of(shortcut_key(5, 0));
  std::swap(last["delta"], anchor["object"]);
  write(commit_key(6), last);
  write(shortcut_key(5, 0), anchor);
  EXPECT_EQ(fetch(6, 4).code(), Code::kCorrupt);
  EXPECT_EQ(fetch(5).code(), Code::kCorrupt);
}

// A schema that asks for more memory than there is: only compaction takes memory by it.
TEST_F(HostileContent, ASchemaOfHugeTensorsIsRefused) {
  HeldTensors small({{"w", DataType::kFloat32, {10}}});
  {
    const auto by = ChainWriter::open(*store, state_of(small), options);
    ASSERT_TRUE((*by)->publish(1).ok());
  }
  const std::vector<std::byte> schema =
      model::serialise(model::Schema{{"w", DataType::kFloat32, {std::uint64_t{1} << 50}}});
  const StoredObject object = *schema_object(schema);
  const std::array pieces{std::span<const std::byte>(schema)};
  ASSERT_TRUE(*store->put_if_absent(object.key, pieces));
  Json forged = json_of(commit_key(1));
  forged["schema"] = {{"key", object.key},
                      {"bytes", object.bytes},
                      {"sha256", object.key.substr(object.key.find('/') + 1)}};
  write(commit_key(1), forged);
  const auto added = compact(chain, kernels::cpu_kernels());
  EXPECT_EQ(added.status().code(), Code::kOutOfMemory);
  EXPECT_THAT(std::string(added.status().message()),
              AllOf(HasSubstr(store->location_of(object.key)), HasSubstr("this machine has")));
}

// An update that unpacks to more than the tensors have is refused by the tensors' own sizes.
TEST_F(HostileContent, AnAnchorOfOtherTensorsIsNotUnpacked) {
  publish_all(2);
  HeldTensors large({{"w", DataType::kFloat32, {4'000'000}}});  // zeros: a few bytes
  const auto other = std::move(*DirectoryStore::open(folder / "other"));
  ASSERT_TRUE(ChainWriter::open(*other, state_of(large), options).value()->publish(1).ok());
  const VersionRecord bomb = **Chain(*other).newest();
  std::vector<std::byte> bytes = **other->read_all(bomb.anchor->key, 1 << 24);
  EXPECT_LT(bytes.size(), 100'000U) << "16 MB are in it";
  write(bomb.anchor->key, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  Json forged = json_of(commit_key(1));
  forged["anchor"] = Json::parse(serialise(bomb))["anchor"];
  write(commit_key(1), forged);
  const Status status = fetch(1);
  EXPECT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kMismatch)) << status.message();
  EXPECT_THAT(std::string(status.message()), HasSubstr(bomb.anchor->key));
}

// A server that answers every number with a record.
class EndlessRecords final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  VersionRecord last;
  std::uint64_t looks = 0;

  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    auto there = store_.read_all(key, max_bytes);
    if (!there.ok() || *there || !key.starts_with("commits/")) return there;
    ++looks;
    VersionRecord record = last;
    record.number = number_in(key);
    record.version = record.number;
    record.base_version = record.number - 1;
    record.base_hash = record.target_hash;
    record.newest_anchor = record.number - 1;
    const std::string text = serialise(record);
    const auto bytes = std::as_bytes(std::span(text));
    return std::optional(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
};

TEST_F(HostileContent, RecordsWithoutAnEndAreRefused) {
  publish_all(3);
  EndlessRecords endless(*store);
  endless.last = **chain.newest();
  Chain reader(endless);
  const auto newest = reader.newest();
  EXPECT_EQ(newest.status().code(), Code::kCorrupt);
  EXPECT_THAT(std::string(newest.status().message()),
              AllOf(HasSubstr(store->location_of("commits/")), HasSubstr("without an end")));
  EXPECT_LT(endless.looks, 50'000U);
  // The way back to an anchor.
  const VersionRecord far = *reader.record(std::uint64_t{1} << 50);
  const auto steps = steps_to(reader, far, {.held = versions[0]});
  EXPECT_EQ(steps.status().code(), Code::kCorrupt);
  EXPECT_THAT(std::string(steps.status().message()), HasSubstr("records lead to it"));
  EXPECT_LT(endless.looks, 150'000U);
}

TEST_F(HostileContent, FoldersThatLeadBackAreNamed) {
  publish_all(2);
  std::filesystem::create_directory_symlink("..", folder / "store/deltas/up");
  const Status status = store->list("deltas", [](const ObjectInfo&) { return true; });
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(folder / "store/deltas/up/deltas"),
                                                   HasSubstr("a folder that it is in")));
}

TEST(ListCount, EndsAtItsLimit) {
  ListCount count("s3://b/commits/: ");
  for (std::uint64_t i = 0; i < kMaxListed; ++i) (void)count.add();
  EXPECT_THAT(std::string(count.add().message()),
              AllOf(HasSubstr("s3://b/commits/"), HasSubstr("10000000 entries")));
}

}  // namespace
}  // namespace sparcl::store
