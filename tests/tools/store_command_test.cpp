// `sparcl store`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/support/temp_folder.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Three versions of a tensor.
void fill_store(const std::string& url) {
  std::vector<float> weights(50'000);
  const std::uint64_t shape[1] = {weights.size()};
  sparclState_t state = nullptr;
  sparclStore_t store = nullptr;
  ASSERT_EQ(sparclStateCreate(&state), sparclSuccess);
  ASSERT_EQ(sparclStateAdd(state, "w", weights.data(), sparclFloat32, 1, shape), sparclSuccess);
  ASSERT_EQ(sparclStoreOpen(&store, url.c_str(), nullptr), sparclSuccess);
  for (std::uint64_t version = 10; version <= 30; version += 10) {
    weights[version] = 1;
    ASSERT_EQ(sparclStorePublish(store, state, version), sparclSuccess)
        << sparclGetLastError(nullptr);
  }
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
  EXPECT_EQ(sparclStateDestroy(state), sparclSuccess);
}

TEST(StoreCommand, ListsVersionsAndNamesDamage) {
  const TempFolder folder;
  const std::string url = "file:" + (folder / "store");
  fill_store(url);
  const nlohmann::json list = run_program({"store", "list", url, "--json"}).json();
  ASSERT_EQ(list["versions"].size(), 3U);
  EXPECT_EQ(list["versions"][2]["version"], 30);
  EXPECT_EQ(list["versions"][2]["base_version"], 20);
  EXPECT_NEAR(list["versions"][2]["written"].get<double>(), static_cast<double>(::time(nullptr)),
              3600);
  EXPECT_GT(list["versions"][0]["anchor_bytes"], list["versions"][1]["delta_bytes"]);
  EXPECT_THAT(run_program({"store", "list", url}).out, HasSubstr("state hash"));
  const ProgramRun sound = run_program({"store", "verify", url});
  EXPECT_EQ(sound.exit_code, 0) << sound.err;
  EXPECT_THAT(sound.out, HasSubstr("3 versions"));

  std::string damaged;
  for (const auto& entry : fs::directory_iterator(folder / "store/deltas"))
    damaged = std::max(damaged, entry.path().string());
  std::ofstream(damaged, std::ios::app) << "x";
  const ProgramRun broken = run_program({"store", "verify", url});
  EXPECT_EQ(broken.exit_code, 3);
  EXPECT_THAT(broken.err, AllOf(HasSubstr("1 are missing or damaged"), HasSubstr(damaged)));
  const nlohmann::json report = run_program({"store", "verify", url, "--json"}).json();
  EXPECT_EQ(report["ok"], false);
  EXPECT_THAT(std::string(report["message"]), HasSubstr(damaged));
  ASSERT_EQ(report["damaged"].size(), 1U);
  EXPECT_EQ(report["damaged"][0]["place"], damaged);
  EXPECT_THAT(std::string(report["damaged"][0]["what"]), HasSubstr("bytes"));
}

TEST(StoreCommand, CopiesRepairsCompactsAndPrunes) {
  const TempFolder folder;
  const std::string url = "file:" + (folder / "store"), copy = "file:" + (folder / "copy");
  fill_store(url);
  EXPECT_EQ(run_program({"store", "compact", url, "--json"}).json()["added"], 1);
  const nlohmann::json copied = run_program({"store", "copy", url, copy, "--json"}).json();
  EXPECT_EQ(copied["versions"], 3);
  EXPECT_GT(copied["bytes"], 1000);
  EXPECT_GT(copied["objects"], 6);
  EXPECT_THAT(run_program({"store", "copy", url, copy}).out, HasSubstr("copied 0 versions, 0 obj"));
  fs::remove_all(folder / "store/deltas");
  const ProgramRun repaired = run_program({"store", "verify", url, "--copy", copy});
  EXPECT_EQ(repaired.exit_code, 0) << repaired.err;
  EXPECT_THAT(repaired.out, AllOf(HasSubstr("Repaired: "), HasSubstr("/store/deltas/")));
  fs::create_directory(folder / "none");
  const ProgramRun empty = run_program({"store", "verify", "file:" + (folder / "none")});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_THAT(empty.err, HasSubstr("the store is empty"));
  const std::string none = "file:" + (folder / "none");
  for (const std::vector<std::string>& call :
       std::vector<std::vector<std::string>>{{"store", "prune", none, "--keep", "1"},
                                             {"store", "compact", none},
                                             {"store", "copy", none, copy}}) {
    const ProgramRun run = run_program(call);
    EXPECT_EQ(run.exit_code, 1) << call[1];
    EXPECT_THAT(run.err, HasSubstr("the store is empty, so nothing was")) << call[1];
  }
  const ProgramRun waits = run_program({"store", "prune", url, "--keep", "1"});
  EXPECT_EQ(waits.exit_code, 0) << waits.err;
  EXPECT_THAT(waits.out,
              HasSubstr("2 more are no longer listed or given to readers that ask for them "
                        "by number: a call in 600 s removes"));
  fs::create_directory(folder / "store/leases");
  std::ofstream(folder / "store/leases/reader") << "2\n";
  const ProgramRun leased = run_program({"store", "prune", url, "--keep", "1"});
  EXPECT_THAT(
      leased.out,
      AllOf(HasSubstr("removed nothing; the lease leases/reader of a reader needs record 2"),
            HasSubstr(" UTC, and longer if")));
  const nlohmann::json why = run_program({"store", "prune", url, "--keep", "1", "--json"}).json();
  EXPECT_EQ(why["lease"]["record"], 2);
  fs::remove(folder / "store/leases/reader");
  const nlohmann::json pruned =
      run_program({"store", "prune", url, "--keep", "1", "--lease-seconds", "0", "--json"}).json();
  EXPECT_EQ(pruned["versions"], 2);
  EXPECT_TRUE(pruned["lease"].is_null());
  EXPECT_THAT(run_program({"store", "prune", url, "--keep", "1"}).out,
              HasSubstr("removed nothing: all versions that are left are to be kept"));
  EXPECT_EQ(run_program({"store", "list", url, "--json"}).json()["versions"].size(), 1U);
  EXPECT_EQ(run_program({"store", "verify", url}).exit_code, 0);
  EXPECT_EQ(run_program({"store", "prune", url}).exit_code, 2) << "it says nothing of what to keep";
}

TEST(StoreCommand, RefusesWhatIsNoStore) {
  const TempFolder folder;
  const ProgramRun missing = run_program({"store", "list", "file:" + (folder / "none")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("the store cannot be opened"));
  EXPECT_FALSE(fs::exists(folder / "none"));
  EXPECT_THAT(missing.err, HasSubstr("A publisher makes the store"));
  const auto list = [](const std::string& url) { return run_program({"store", "list", url}); };
  for (const char* const url : {"gopher://x", "run/store", "file:", "s3://", "s3://b"}) {
    EXPECT_EQ(list(url).exit_code, 2) << url;
    EXPECT_THAT(list(url).err, HasSubstr("is no address of a store")) << url;
  }
  EXPECT_THAT(list("run/store").err, HasSubstr("is file:run/store meant?"));
  const ProgramRun subscribed = run_program({"subscribe", "run/store", "-o", folder / "out"});
  EXPECT_EQ(subscribed.exit_code, 2);
  EXPECT_THAT(subscribed.err, HasSubstr("is file:run/store meant?"));
  EXPECT_EQ(run_program({"subscribe", "http://x", "-o", folder / "out"}).exit_code, 2);

  fill_store("file:" + (folder / "runs/policy/v2"));
  const ProgramRun above = list("file:" + (folder / "runs"));
  EXPECT_EQ(above.exit_code, 1);
  EXPECT_THAT(above.err, HasSubstr("give file:" + (folder / "runs/policy/v2")));
  fs::create_directory(folder / "plain");
  std::ofstream(folder / "plain/notes.txt") << "x";
  EXPECT_EQ(list("file:" + (folder / "plain")).exit_code, 1);
  EXPECT_THAT(list("file:" + (folder / "plain")).err, HasSubstr("it is no store: notes.txt lies"));
  fs::create_directory(folder / "empty");
  EXPECT_EQ(list("file:" + (folder / "empty")).exit_code, 0);
  fs::remove_all(folder / "runs/policy/v2/commits");
  const ProgramRun gone = list("file:" + (folder / "runs/policy/v2"));
  EXPECT_EQ(gone.exit_code, 3);
  EXPECT_THAT(gone.err, HasSubstr("newest: it names record 3, and the store has no record"));
  EXPECT_EQ(run_program({"store"}).exit_code, 2);
  const ProgramRun misspelt = run_program({"store", "lst", "file:x"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_THAT(misspelt.err, AllOf(HasSubstr("there is no command 'lst' (did you mean list?)"),
                                  HasSubstr("compact")));
  EXPECT_THAT(run_program({"stroe"}).err, HasSubstr("did you mean store?"));
}

}  // namespace
}  // namespace sparcl::test
