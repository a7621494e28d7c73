// Records, shortcuts and objects that were damaged are named, and replaced from a copy of the store
// alone: the other one is refused before anything is written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "src/store/compaction.hpp"
#include "src/store/store_content.hpp"
#include "src/store/version_reader.hpp"
#include "tests/store/chain_support.hpp"

namespace sparcl::store {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;
using Json = nlohmann::json;
using Files = std::map<std::string, std::string>;

constexpr std::uint64_t kVersions = 20;
const model::Schema kSmall{{"w", DataType::kFloat32, {4000}}};

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// What readers read. newest: a note.
Files files_of(const fs::path& folder) {
  Files files;
  for (const auto& each : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(each.path(), folder).string();
    if (each.is_regular_file() && name != "newest" && name != "clock")
      files[name] = read_text(each.path());
  }
  return files;
}

// Publishes versions of other bytes for each seed.
void fill(const std::string& folder, std::uint64_t seed, std::uint64_t versions) {
  const auto store = std::move(*DirectoryStore::open(folder));
  HeldTensors trained(kSmall);
  const auto by =
      std::move(*ChainWriter::open(*store, state_of(trained), WriterOptions{.anchor_every = 9}));
  for (std::uint64_t version = 1; version <= versions; ++version) {
    trained.change(seed + version, 200);
    ASSERT_TRUE(by->publish(version).ok());
  }
}

class StoreRepair : public testing::Test {
 protected:
  void SetUp() override {
    fill(folder / "whole", 100, kVersions);  // anchors: 1, 8, 16 and others; a skip: 8 to 16
    whole = files_of(folder / "whole");
    ASSERT_TRUE(whole.contains(shortcut_key(16, 0)) && whole.contains(shortcut_key(16, 8)));
  }
  void damage_anew() {
    fs::remove_all(folder / "store");
    fs::copy(folder / "whole", folder / "store", fs::copy_options::recursive);
  }
  fs::path at(const std::string& key) const { return folder.path() / "store" / key; }
  Result<VerifyReport> verify(const char* copy = nullptr) {
    damage.clear();
    const auto store = std::move(*DirectoryStore::open(folder / "store"));
    Chain chain(*store);
    std::unique_ptr<ObjectStore> other;
    std::optional<Chain> from;
    if (copy != nullptr) {
      other = std::move(*DirectoryStore::open(folder / copy));
      from.emplace(*other);
    }
    return verify_content(chain, from ? &*from : nullptr,
                          [&](const Damage& each) { damage.push_back(each); });
  }
  std::string told() const {
    std::string text;
    for (const Damage& each : damage)
      text += each.location + ": " + each.what + (each.is_repaired ? " (repaired)\n" : "\n");
    return text;
  }

  test::TempFolder folder;
  Files whole;
  std::vector<Damage> damage;
};

// Another digit.
Json changed(const Json& value) {
  if (value.is_number()) return value.get<std::uint64_t>() + 7;
  std::string text = value.get<std::string>();
  char& digit = text[text.size() > 40 && text.ends_with(".sparcl") ? text.size() - 8
                     : text.ends_with(".index")                    ? text.size() - 14
                                                                   : text.size() - 5];
  digit = digit == '1' ? '2' : '1';
  return text;
}

struct Change {
  std::string key, field;  // field: a JSON pointer; or "delete", "empty"
};

TEST_F(StoreRepair, EachDamageIsNamedAndReplacedByTheCopys) {
  std::vector<Change> changes;
  const std::string newest = commit_key(20), middle = commit_key(10), skip = shortcut_key(16, 8),
                    anchor = shortcut_key(16, 0);
  for (const char* field :
       {"delete", "empty", "/target_hash", "/base_hash", "/version", "/base_version", "/writer",
        "/newest_anchor", "/schema/bytes", "/schema/sha256", "/schema/key", "/delta/key",
        "/delta/sha256", "/delta/bytes"}) {
    if (std::string(field) != "/version") changes.push_back({middle, field});
    changes.push_back({newest, field});
  }
  for (const char* field : {"/target_hash", "/anchor/sha256", "/anchor/key", "/anchor_index/bytes",
                            "/schema/bytes", "empty", "delete"})
    changes.push_back({commit_key(1), field});
  for (const char* field : {"empty", "/version", "/base_version", "/base_hash", "/target_hash",
                            "/object/key", "/object/bytes", "/object/sha256"}) {
    changes.push_back({skip, field});
    changes.push_back({anchor, field});
  }
  for (const char* field : {"delete", "/index/key", "/index/bytes", "/index/sha256"})
    changes.push_back({anchor, field});
  for (const auto& [key, field] : changes) {
    SCOPED_TRACE(key + " " + field);
    damage_anew();
    if (field == "delete") {
      fs::remove(at(key));
    } else if (field == "empty") {
      write_text(at(key), "");
    } else {
      Json json = Json::parse(whole[key]);
      Json& value = json[Json::json_pointer(field)];
      value = field == "/newest_anchor" ? Json(7) : changed(value);
      if (field == "/version" && key == anchor) value = 15;
      if (field == "/base_version" && key != skip && key != anchor) value = 1;
      if (field == "/base_version" && key == skip) value = 9;
      write_text(at(key), json.dump());
    }
    const Result<VerifyReport> found = verify();
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_GE(found->damaged, 1U);
    EXPECT_LE(found->damaged, 3U) << told();
    const Result<VerifyReport> repaired = verify("whole");
    ASSERT_TRUE(repaired.ok()) << repaired.status().message();
    EXPECT_EQ(repaired->repaired, repaired->damaged) << told();
    EXPECT_GE(repaired->repaired, 1U) << told();
    EXPECT_TRUE(files_of(folder / "store") == whole) << told();
    const Result<VerifyReport> after = verify();
    ASSERT_TRUE(after.ok()) << after.status().message();
    EXPECT_EQ(after->damaged, 0U) << told();
    EXPECT_THAT(after->remarks, IsEmpty());
  }
}

TEST_F(StoreRepair, ALostShortcutOfASkipIsRemarkedAndBroughtBack) {
  damage_anew();
  fs::remove(at(shortcut_key(16, 8)));
  const Result<VerifyReport> found = verify();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->damaged, 0U) << told();
  ASSERT_EQ(found->remarks.size(), 1U);
  EXPECT_THAT(found->remarks[0].what, HasSubstr(shortcut_key(16, 8)));
  EXPECT_EQ(verify("whole")->repaired, 1U);
  EXPECT_TRUE(files_of(folder / "store") == whole);
}

TEST_F(StoreRepair, AWrongNoteOfTheNewestIsARemark) {
  for (const char* text : {"", "abc", "0\n", "27\n", "delete"}) {
    damage_anew();
    write_text(at(kNewest), text);
    if (std::string(text) == "delete") fs::remove(at(kNewest));
    const Result<VerifyReport> found = verify();
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->damaged, 0U) << text << told();
    ASSERT_EQ(found->remarks.size(), 1U) << text;
    EXPECT_TRUE(verify("whole")->remarks.at(0).is_repaired);
    EXPECT_EQ(read_text(at(kNewest)), "20\n");
  }
}

TEST_F(StoreRepair, AnotherStoreIsRefusedBeforeAnythingIsWritten) {
  fill(folder / "other", 900, 8);
  {
    const auto other = std::move(*DirectoryStore::open(folder / "other"));
    Chain chain(*other);
    ASSERT_TRUE(compact(chain, kernels::cpu_kernels()).ok());
  }
  for (const bool lacks_one : {false, true}) {
    damage_anew();
    if (lacks_one) fs::remove(at(commit_key(5)));
    const Files before = files_of(folder / "store");
    const Result<VerifyReport> refused = verify("other");
    EXPECT_EQ(refused.status().code(), Code::kMismatch);
    EXPECT_THAT(refused.status().message(), HasSubstr("is not a copy of"));
    EXPECT_TRUE(files_of(folder / "store") == before);
  }
  // The same up to some version, and then two histories.
  damage_anew();
  fs::copy(folder / "whole", folder / "fork", fs::copy_options::recursive);
  for (const char* name : {"store", "fork"}) {
    const auto store = std::move(*DirectoryStore::open(folder / name));
    HeldTensors trained(kSmall);
    trained.change(name[0], 200);
    const auto by = std::move(*ChainWriter::open(*store, state_of(trained), {}));
    ASSERT_TRUE(by->publish(kVersions + 1).ok());
  }
  EXPECT_EQ(verify("fork").status().code(), Code::kMismatch);
  // Nothing is in common.
  fs::create_directory(folder / "empty");
  EXPECT_EQ(verify("empty").status().code(), Code::kMismatch);
}

// A damaged copy spoils nothing, and what neither has is named.
TEST_F(StoreRepair, DamageOfTheCopyIsNotTaken) {
  damage_anew();
  fs::copy(folder / "whole", folder / "copy", fs::copy_options::recursive);
  Json json = Json::parse(whole[commit_key(12)]);
  json["target_hash"] = changed(json["target_hash"]);
  write_text(folder.path() / "copy" / commit_key(12), json.dump());
  write_text(folder.path() / "copy" / shortcut_key(16, 8), "");
  Result<VerifyReport> report = verify("copy");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->damaged, 0U) << told();
  fs::remove(at(commit_key(12)));
  report = verify("copy");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->repaired, 0U) << told();
  EXPECT_THAT(told(), HasSubstr("the copy's record does not fit"));
  EXPECT_FALSE(fs::exists(at(commit_key(12))));
}

// What a reader gets by a version's number; 0: the newest.
class ReadersOfADamagedStore : public StoreRepair {
 protected:
  Status restore(std::uint64_t version) {
    const auto store = std::move(*DirectoryStore::open(folder / "store"));
    Chain chain(*store);
    Lease lease(*store);
    VersionReader reader(chain, lease);
    HeldTensors held(kSmall);
    const auto restored = reader.restore(version, std::nullopt, state_of(held));
    lease.release();
    EXPECT_TRUE(!restored.ok() || held.hash() == restored->record.target_hash);
    return restored.status();
  }
  void expect_readable(std::initializer_list<std::uint64_t> versions) {
    for (const std::uint64_t version : versions) {
      const Status status = restore(version);
      EXPECT_TRUE(status.ok()) << version << ": " << status.message();
    }
  }
  void expect_damaged(std::initializer_list<std::uint64_t> versions, const std::string& key) {
    for (const std::uint64_t version : versions) {
      const Status status = restore(version);
      EXPECT_EQ(status.code(), Code::kCorrupt) << version;
      EXPECT_THAT(status.message(), HasSubstr(key)) << version;
      EXPECT_THAT(status.message(), HasSubstr("sparcl store verify")) << version;
    }
  }
  std::size_t listed() {
    const auto store = std::move(*DirectoryStore::open(folder / "store"));
    Chain chain(*store);
    std::size_t count = 0;
    damage.clear();
    const Status status = list_versions(
        chain, [&](const ListedVersion&) { ++count; },
        [&](const Damage& each) { damage.push_back(each); });
    EXPECT_EQ(status.code(), Code::kCorrupt);
    EXPECT_EQ(damage.size(), 1U) << told();
    return count;
  }
};

TEST_F(ReadersOfADamagedStore, ReadWhatDoesNotNeedADamagedRecord) {
  damage_anew();
  write_text(at(commit_key(20)), "");
  expect_readable({1, 5, 16, 19});
  expect_damaged({0, 20}, commit_key(20));
  EXPECT_THAT(restore(0).message(), HasSubstr("version 19 is the newest one before it"));
  EXPECT_EQ(listed(), 19U);
  fs::remove(at(kNewest));
  expect_readable({19});
  expect_damaged({0}, commit_key(20));

  damage_anew();
  for (const std::uint64_t number : {11, 12}) write_text(at(commit_key(number)), "{}");
  expect_readable({0, 5, 10, 16, 20});
  expect_damaged({11, 12, 13}, "commits/");
  write_text(at(commit_key(11)), whole[commit_key(11)]);
  expect_readable({11});
  expect_damaged({12, 13}, commit_key(12));
  EXPECT_EQ(listed(), 19U);

  damage_anew();  // its anchor does without it
  write_text(at(commit_key(16)), "");
  expect_readable({15, 17, 20});
  expect_damaged({16}, commit_key(16));
}

TEST_F(ReadersOfADamagedStore, PassOverAnAnchorOfAnotherVersion) {
  for (const char* field : {"version", "target_hash"}) {
    damage_anew();
    Json json = Json::parse(whole[shortcut_key(16, 0)]);
    json[field] = json[field].is_number() ? Json(15) : changed(json[field]);
    write_text(at(shortcut_key(16, 0)), json.dump());
    expect_readable({16, 17, 20});
  }
  damage_anew();
  write_text(at(shortcut_key(16, 0)), "");
  expect_readable({16, 20});
  EXPECT_EQ(listed(), 20U);
}

}  // namespace
}  // namespace sparcl::store
