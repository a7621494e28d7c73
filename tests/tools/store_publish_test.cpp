// `sparcl publish --store`, and `sparcl subscribe` and `sparcl store restore` from a store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_folder.hpp"
#include "tests/tools/tools_support.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class StorePublish : public testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }
  // A file of the next state.
  std::string next_file(const std::string& name) {
    change(tensors_, 0.01, ++seed_);
    write_model(at(name), tensors_);
    return at(name);
  }
  nlohmann::json versions() const {
    const ProgramRun list = run_program({"store", "list", url_, "--json"});
    EXPECT_EQ(list.exit_code, 0) << list.err;
    nlohmann::json numbers = nlohmann::json::array();
    const nlohmann::json listed = list.json();
    for (const nlohmann::json& each : listed["versions"]) numbers.push_back(each["version"]);
    return numbers;
  }

  TempFolder folder_;
  std::string url_ = "file:" + (folder_ / "store");
  Tensors tensors_ = small_model();
  std::uint64_t seed_ = 0;
};

TEST_F(StorePublish, AFileFollowsAndEachVersionComesBack) {
  const std::string a = next_file("a.safetensors"), b = next_file("b.safetensors");
  const ProgramRun published = run_program({"publish", a, b, "--store", url_});
  ASSERT_EQ(published.exit_code, 0) << published.err;
  EXPECT_THAT(published.out, HasSubstr("version 1: " + a + ", the first"));
  BackgroundProgram follower({"subscribe", url_, "-o", at("f.safetensors"), "--poll", "0.05",
                              "--until", "3", "--exec", "echo $SUBSCRIBED_VERSION >>" + at("ran")});
  EXPECT_EQ(follower.version(2)["source"], "anchor") << follower.err();
  expect_same(at("f.safetensors"), b);
  const std::string c = next_file("c.safetensors");
  ASSERT_EQ(run_program({"publish", c, "--store", url_}).exit_code, 0);
  EXPECT_EQ(follower.exit_code(), 0) << follower.err();
  EXPECT_EQ(follower.version(3)["source"], "delta");
  expect_same(at("f.safetensors"), c);
  EXPECT_EQ(read_text(at("ran")), "2\n3\n");

  const nlohmann::json restored =
      run_program({"store", "restore", url_, "-o", at("f.safetensors"), "--version", "1", "--json"})
          .json();
  EXPECT_EQ(restored["version"], 1);
  expect_same(at("f.safetensors"), a);
  const nlohmann::json held =
      run_program({"store", "restore", url_, "-o", at("f.safetensors"), "--version", "1", "--json"})
          .json();
  EXPECT_EQ(held["source"], "held") << "nothing is read";
  const ProgramRun none =
      run_program({"store", "restore", url_, "-o", at("f.safetensors"), "--version", "9"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err,
              HasSubstr(url_ + ": there is no version 9: the oldest is 1 and the newest"));
  expect_same(at("f.safetensors"), a);
}

TEST_F(StorePublish, AFollowerEndsWithAWantedVersionThatCannotBeWritten) {
  ASSERT_EQ(run_program({"publish", next_file("a.safetensors"), "--store", url_}).exit_code, 0);
  fs::create_directory(at("served"));
  BackgroundProgram follower(
      {"subscribe", url_, "-o", at("served/f.safetensors"), "--poll", "0.05", "--until", "2"});
  ASSERT_FALSE(follower.version(1).is_null()) << follower.err();
  fs::rename(at("served"), at("away"));
  write_text(at("served"), "no folder");
  ASSERT_EQ(run_program({"publish", next_file("b.safetensors"), "--store", url_}).exit_code, 0);
  EXPECT_EQ(follower.exit_code(), 1) << follower.err();
  EXPECT_THAT(follower.err(), HasSubstr("version 2 could not be written safely"));
}

TEST_F(StorePublish, TensorsThatAreKeptInAFileComeBack) {
  fs::create_directory(at("spill"));
  ::setenv("SPARCL_SPILL_FOLDER", at("spill").c_str(), 1);
  const std::string a = next_file("a.safetensors"), b = next_file("b.safetensors");
  const ProgramRun published = run_program({"publish", a, b, "--store", url_});
  EXPECT_EQ(published.exit_code, 0) << published.err;
  for (const auto& [version, file] : {std::pair("1", a), std::pair("2", b)}) {
    const ProgramRun restored =
        run_program({"store", "restore", url_, "-o", at("out"), "--version", version});
    EXPECT_EQ(restored.exit_code, 0) << restored.err;
    expect_same(at("out"), file);
  }
  EXPECT_TRUE(fs::is_empty(at("spill"))) << "the file has no name";
  ::setenv("SPARCL_SPILL_FOLDER", at("none").c_str(), 1);
  const ProgramRun refused = run_program({"store", "restore", url_, "-o", at("other")});
  ::unsetenv("SPARCL_SPILL_FOLDER");
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("SPARCL_SPILL_FOLDER: " + at("none")));
}

TEST_F(StorePublish, AnIndependentChainHasASkipToEachVersion) {
  std::vector<std::string> arguments{"publish", "--store", url_, "--chain", "independent"};
  for (const char* const name : {"a", "b", "c", "d"})
    arguments.push_back(next_file(std::string(name) + ".safetensors"));
  const ProgramRun published = run_program(arguments);
  ASSERT_EQ(published.exit_code, 0) << published.err;
  const auto skips = fs::recursive_directory_iterator(at("store/skips"));
  EXPECT_EQ(std::count_if(begin(skips), end(skips),
                          [](const auto& each) { return each.is_regular_file(); }),
            2)
      << "1 to 3, 1 to 4";
  ::setenv("SPARCL_STORE_LINK", "metered", 1);
  ::setenv("SPARCL_STORE_CACHE", at("fetched").c_str(), 1);
  for (const char* const version : {"1", "4"})
    EXPECT_EQ(
        run_program({"store", "restore", url_, "-o", at("out.safetensors"), "--version", version})
            .exit_code,
        0);
  ::unsetenv("SPARCL_STORE_LINK");
  ::unsetenv("SPARCL_STORE_CACHE");
  expect_same(at("out.safetensors"), arguments.back());
}

TEST_F(StorePublish, FoldersOfShardsComeBackAsTheyWere) {
  write_shards(at("one"), tensors_, 3);
  ASSERT_EQ(run_program({"publish", at("one"), "--store", url_}).exit_code, 0);
  ASSERT_EQ(run_program({"store", "restore", url_, "-o", at("back")}).exit_code, 0);
  expect_same(at("one"), at("back"));
  const std::string copy = "file:" + at("copy");
  ASSERT_EQ(run_program({"store", "copy", url_, copy}).exit_code, 0);
  ASSERT_EQ(run_program({"store", "restore", copy, "-o", at("again")}).exit_code, 0);
  expect_same(at("one"), at("again"));
  fs::remove_all(at("store/descriptions"));
  const ProgramRun damaged = run_program({"store", "verify", url_});
  EXPECT_EQ(damaged.exit_code, 3);
  EXPECT_THAT(damaged.err, HasSubstr("store/descriptions/"));
  EXPECT_EQ(run_program({"store", "verify", url_, "--copy", copy}).exit_code, 0);
}

TEST_F(StorePublish, ReplicasAreServedWhileTheStoreFails) {
  fs::create_directory(at("watched"));
  next_file("watched/step_1.safetensors");
  BackgroundProgram publisher(
      {"publish", "--watch", at("watched"), "--store", url_, "--listen", "127.0.0.1:0"});
  ASSERT_FALSE(publisher.version(1).is_null()) << publisher.err();
  fs::rename(at("store"), at("away"));
  write_text(at("store"), "no folder");
  next_file("watched/step_2.safetensors");
  EXPECT_FALSE(publisher.version(2).is_null()) << publisher.err();
  EXPECT_THAT(publisher.err(), HasSubstr("it is not in the store"));
  fs::remove(at("store"));
  fs::rename(at("away"), at("store"));
  const std::string last = next_file("watched/step_3.safetensors");
  EXPECT_FALSE(publisher.version(3).is_null()) << publisher.err();
  EXPECT_EQ(publisher.end_by(SIGTERM), 0);
  EXPECT_EQ(versions(), nlohmann::json({1, 3}));
  ASSERT_EQ(run_program({"store", "restore", url_, "-o", at("f.safetensors")}).exit_code, 0);
  expect_same(at("f.safetensors"), last);
}

TEST_F(StorePublish, AfterARestartOldFilesArePassedOver) {
  fs::create_directory(at("watched"));
  next_file("watched/step_1.safetensors");
  next_file("watched/step_2.safetensors");
  const std::vector<std::string> watch{"publish", "--watch", at("watched"), "--store", url_};
  {
    BackgroundProgram publisher(watch);
    EXPECT_FALSE(publisher.version(2).is_null()) << publisher.err();
    EXPECT_EQ(publisher.end_by(SIGTERM), 0);
  }
  next_file("watched/step_3.safetensors");
  {
    BackgroundProgram again(watch);
    EXPECT_FALSE(again.line_with("file", at("watched/step_3.safetensors")).is_null())
        << again.err();
    EXPECT_THAT(again.err(), HasSubstr("passed over"));
    EXPECT_EQ(again.end_by(SIGTERM), 0);
  }
  EXPECT_EQ(versions().size(), 3u) << versions();
  // None of these is what the store holds: the last one is its next version.
  fs::remove(at("watched/step_3.safetensors"));
  next_file("watched/step_4.safetensors");
  {
    BackgroundProgram again(watch);
    EXPECT_FALSE(again.line_with("file", at("watched/step_4.safetensors")).is_null())
        << again.err();
    EXPECT_EQ(again.end_by(SIGTERM), 0);
  }
  EXPECT_EQ(versions().size(), 4u) << versions();
  ASSERT_EQ(run_program({"store", "restore", url_, "-o", at("f.safetensors")}).exit_code, 0);
  expect_same(at("f.safetensors"), at("watched/step_4.safetensors"));
}

TEST_F(StorePublish, VersionsFromNamesAreTheStoresVersions) {
  const std::string seven = next_file("step_7.safetensors"), nine = next_file("step_9.safetensors");
  const std::vector<std::string> both{"publish",        seven,  nine,    "--store", url_,
                                      "--version-from", "name", "--json"};
  ASSERT_EQ(run_program(both).exit_code, 0);
  EXPECT_EQ(versions(), nlohmann::json({7, 9}));
  const ProgramRun again = run_program(both);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, "") << "nothing was published";
  EXPECT_EQ(versions(), nlohmann::json({7, 9}));
  next_file("step_9.safetensors");
  const ProgramRun other = run_program(both);
  EXPECT_EQ(other.exit_code, 3);
  EXPECT_THAT(other.err, HasSubstr("another version 9"));
}

TEST_F(StorePublish, FilesWithNumbersThatCameWhileItWasDownAreVersionsToo) {
  fs::create_directory(at("steps"));
  const std::vector<std::string> watch{"publish", "--watch",        at("steps"), "--store",
                                       url_,      "--version-from", "name"};
  for (const int newest : {2, 5}) {
    for (int step = newest == 2 ? 1 : 3; step <= newest; ++step)
      next_file(fmt::format("steps/step_{}.safetensors", step));
    BackgroundProgram publisher(watch);
    EXPECT_FALSE(publisher.version(static_cast<std::uint64_t>(newest)).is_null())
        << publisher.err();
  }
  EXPECT_EQ(versions(), nlohmann::json({1, 2, 3, 4, 5}));
}

TEST_F(StorePublish, ARestoredVersionHasTheHeaderOfItsOwnFile) {
  change(tensors_, 0.01, ++seed_);
  write_model(at("a.safetensors"), tensors_, {{"step", "first"}});
  change(tensors_, 0.01, ++seed_);
  write_model(at("b.safetensors"), tensors_, {{"step", "second"}});
  ASSERT_EQ(
      run_program({"publish", at("a.safetensors"), at("b.safetensors"), "--store", url_}).exit_code,
      0);
  for (const auto& [version, file] : {std::pair{"2", "b.safetensors"}, {"1", "a.safetensors"}}) {
    ASSERT_EQ(
        run_program({"store", "restore", url_, "-o", at("out"), "--version", version, "--replace"})
            .exit_code,
        0);
    EXPECT_EQ(read_text(at("out")), read_text(at(file))) << "byte for byte";
  }
}

TEST_F(StorePublish, LayoutsDoNotMixInOneFolder) {
  const std::string a = next_file("a.safetensors"), other = "file:" + at("other");
  ASSERT_EQ(run_program({"publish", a, "--store", url_}).exit_code, 0);
  const ProgramRun mixed = run_program({"publish", a, "--store", url_, "--layout", "hf-xor"});
  EXPECT_NE(mixed.exit_code, 0);
  EXPECT_THAT(mixed.err, HasSubstr("it is a store of the layout sparcl"));
  ASSERT_EQ(run_program({"publish", a, "--store", other, "--layout", "hf-xor"}).exit_code, 0);
  const ProgramRun forgotten = run_program({"publish", a, "--store", other});
  EXPECT_NE(forgotten.exit_code, 0);
  EXPECT_THAT(forgotten.err, HasSubstr("folders of another layout (weight_v000001)"));
  fs::create_directory(at("watched"));
  next_file("watched/a.safetensors");
  BackgroundProgram watcher(
      {"publish", "--watch", at("watched"), "--store", other, "--layout", "hf-xor"});
  EXPECT_FALSE(watcher.version(2).is_null()) << watcher.err();
  const ProgramRun second = run_program({"publish", a, "--store", other, "--layout", "hf-xor"});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  next_file("watched/b.safetensors");
  EXPECT_NE(watcher.exit_code(), 0);
  EXPECT_THAT(watcher.err(), HasSubstr("another process has written version 3"));
}

TEST_F(StorePublish, ReplicasAndTheStoreGetTheSameVersions) {
  const std::string a = next_file("a.safetensors"), b = next_file("b.safetensors");
  BackgroundProgram publisher(
      {"publish", a, b, "--store", url_, "--listen", "127.0.0.1:0", "--exit-when-acked", "1"});
  const ProgramRun replica = run_program(
      {"subscribe", publisher.address(), "-o", at("r.safetensors"), "--until", "2", "--json"});
  EXPECT_EQ(replica.exit_code, 0) << replica.err;
  EXPECT_EQ(publisher.exit_code(), 0) << publisher.err();
  EXPECT_GT(publisher.version(2)["stored_bytes"], 0);
  ASSERT_EQ(run_program({"store", "restore", url_, "-o", at("s.safetensors")}).exit_code, 0);
  expect_same(at("r.safetensors"), b);
  expect_same(at("s.safetensors"), b);
}

TEST_F(StorePublish, SignedVersionsAreCheckedByTrustedKeys) {
  for (const char* key : {"key", "other"})
    ASSERT_EQ(run_program({"keygen", "-o", at(key)}).exit_code, 0);
  const std::string a = next_file("a.safetensors");
  ASSERT_EQ(
      run_program({"publish", a, "--store", url_, "--key", at("key"), "--model-id", "m"}).exit_code,
      0);
  const auto restore = [&](const std::string& key, const std::string& model) {
    return run_program({"store", "restore", url_, "-o", at("f.safetensors"), "--trust", at(key),
                        "--model-id", model});
  };
  const ProgramRun refused = restore("other.pub", "m");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("store/commits/"));
  EXPECT_EQ(restore("key.pub", "n").exit_code, 3);
  EXPECT_FALSE(fs::exists(at("f.safetensors")));
  const ProgramRun compact = run_program({"store", "compact", url_});
  EXPECT_EQ(compact.exit_code, 3);
  EXPECT_THAT(compact.err, HasSubstr("version 1 of the store is signed"));
  // Nor may a publisher lock the readers out.
  const std::string b = next_file("b.safetensors");
  const std::vector<std::vector<std::string>> wrong{
      {}, {"--model-id", "m"}, {"--key", at("key")}, {"--key", at("other"), "--model-id", "m"}};
  for (const std::vector<std::string>& options : wrong) {
    std::vector<std::string> publish{"publish", b, "--store", url_};
    publish.insert(publish.end(), options.begin(), options.end());
    EXPECT_EQ(run_program(publish).exit_code, 3);
  }
  EXPECT_EQ(run_program({"store", "compact", url_, "--key", at("key")}).exit_code, 0);
  const ProgramRun taken = restore("key.pub", "m");
  EXPECT_EQ(taken.exit_code, 0) << taken.err;
  expect_same(at("f.safetensors"), a);
}

// A copy that was tampered with, or lost signatures, brings its bytes, and no records that readers
// with trusted keys would refuse.
TEST_F(StorePublish, RepairsBringNoUnsignedRecord) {
  ASSERT_EQ(run_program({"keygen", "-o", at("key")}).exit_code, 0);
  std::vector<std::string> publish{"publish", "--store",    url_, "--key",
                                   at("key"), "--model-id", "m"};
  for (const char* const name : {"a.safetensors", "b.safetensors", "c.safetensors"})
    publish.push_back(next_file(name));
  ASSERT_EQ(run_program(publish).exit_code, 0);
  const std::string copy = "file:" + at("copy");
  ASSERT_EQ(run_program({"store", "copy", url_, copy}).exit_code, 0);
  const std::string record = "/commits/00000000000000000003";
  const std::string right = read_text(at("store" + record));
  nlohmann::json bare = nlohmann::json::parse(right);
  ASSERT_EQ(bare.erase("signatures"), 1u);
  const auto verify = [&](const std::string& url, const std::string& other) {
    return run_program({"store", "verify", url, "--copy", other}).exit_code;
  };

  write_text(at("store" + record), bare.dump());
  EXPECT_EQ(run_program({"store", "verify", url_}).exit_code, 3) << "its signature is gone";
  EXPECT_EQ(verify(url_, copy), 0);
  EXPECT_EQ(read_text(at("store" + record)), right);

  write_text(at("copy" + record), bare.dump());
  const std::string delta = at("store/" + bare["delta"]["key"].get<std::string>());
  const std::string bytes = read_text(delta);
  write_text(delta, std::string(bytes.size(), 'x'));
  EXPECT_EQ(verify(url_, copy), 0) << "the bytes are right there";
  EXPECT_EQ(read_text(delta), bytes);
  EXPECT_EQ(read_text(at("store" + record)), right);

  fs::remove(at("store" + record));
  EXPECT_EQ(verify(url_, copy), 3);
  EXPECT_FALSE(fs::exists(at("store" + record)));
}

// After a restart with the same files only what comes after the store's newest one is published.
TEST_F(StorePublish, GivenFilesThatTheStoreHasArePassedOver) {
  std::vector<std::string> publish{"publish", "--store", url_};
  for (const char* const name : {"a.safetensors", "b.safetensors", "c.safetensors"})
    publish.push_back(next_file(name));
  ASSERT_EQ(run_program(publish).exit_code, 0);
  publish.push_back(next_file("d.safetensors"));
  const ProgramRun again = run_program(publish);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("c.safetensors as its newest version, 3"));
  EXPECT_THAT(again.out, AllOf(HasSubstr("version 4: "), Not(HasSubstr("version 5: "))));
  // Another order is no restart.
  const ProgramRun other =
      run_program({"publish", "--store", url_, at("a.safetensors"), at("d.safetensors")});
  EXPECT_THAT(other.out, HasSubstr("version 5: " + at("a.safetensors")));
}

// Folders that engines of other programs read: a complete version, then changes.
TEST_F(StorePublish, FoldersOfOtherProgramsAreWrittenAndReadBack) {
  constexpr const char* kSteps[] = {"3", "4", "6"};
  for (const char* const layout : {"hf-xor", "hf-overwrite"}) {
    const std::string sync = at(std::string("sync-") + layout);
    std::vector<std::string> publish{"publish", "--store",        "file:" + sync, "--layout",
                                     layout,    "--version-from", "name"};
    std::vector<std::string> files;
    for (const char* const step : kSteps)
      files.push_back(next_file(fmt::format("{}-step_{}.safetensors", layout, step)));
    std::vector<std::string> all = publish;
    all.insert(all.end(), files.begin(), files.end());
    const ProgramRun run = run_program(all);
    ASSERT_EQ(run.exit_code, 0) << run.err;
    const std::string index = "/model.safetensors.index.json";
    EXPECT_THAT(read_text(sync + "/weight_v000003" + index), Not(HasSubstr("delta_encoding")));
    EXPECT_THAT(read_text(sync + "/weight_v000006" + index), HasSubstr("base_version"));
    const std::string chain = "file:" + at(std::string("chain-") + layout);
    BackgroundProgram reader(
        {"publish", "--watch", sync, "--store", chain, "--version-from", "name"});
    EXPECT_FALSE(reader.version(6).is_null()) << reader.err();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string back = at(fmt::format("back-{}-{}", layout, i));
      const ProgramRun restored =
          run_program({"store", "restore", chain, "-o", back, "--version", kSteps[i]});
      ASSERT_EQ(restored.exit_code, 0) << restored.err;
      const Result<model::Checkpoint> got = model::Checkpoint::open(back),
                                      expected = model::Checkpoint::open(files[i]);
      ASSERT_TRUE(got.ok() && expected.ok());
      ASSERT_EQ(got->schema().size(), expected->schema().size());
      for (std::size_t tensor = 0; tensor < got->schema().size(); ++tensor)
        EXPECT_TRUE(std::ranges::equal(got->bytes(tensor), expected->bytes(tensor))) << tensor;
    }
    // After a restart the numbers go on, with a complete version.
    all = publish;
    all.push_back(files.back());
    all.push_back(next_file(fmt::format("{}-step_9.safetensors", layout)));
    ASSERT_EQ(run_program(all).exit_code, 0);
    EXPECT_THAT(read_text(sync + "/weight_v000009" + index), Not(HasSubstr("delta_encoding")));
  }
}

TEST_F(StorePublish, WrongCommandLinesAreNamed) {
  const std::string a = next_file("a.safetensors");
  const auto expect_usage = [](const std::vector<std::string>& arguments, const char* what) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(what));
  };
  expect_usage({"publish", a, "--store", at("store")}, "file:PATH");
  expect_usage({"publish", a, "--store", url_, "--exit-when-acked", "1"}, "--listen");
  expect_usage({"publish", a, "--anchor-every", "3"}, "--store");
  expect_usage({"subscribe", url_, "-o", at("f"), "--max-age", "5"}, "--max-age");
  expect_usage({"store", "restore", url_, "-o", at("f"), "--trust", a}, "--model-id");
  expect_usage({"publish", a, "--store", url_, "--layout", "nemo"}, "--layout");
  expect_usage({"store", "restore", url_, "-o", at("f"), "--version", "0"},
               "'0' is no whole number from 1 on\nTry: sparcl store restore --help");
  expect_usage({"store", "restore", url_, "-o", at("f"), "--version", "-1"}, "'-1' is negative");
  expect_usage({"store", "prune", url_, "--keep", "-5"}, "'-5' is negative");
  expect_usage({"store", "prune", url_, "--keep", "99999999999999999999"},
               "larger than 18446744073709551615");
  expect_usage({"store", "prune", url_, "--keep-seconds", "nan"}, "'nan' is no finite number");
  expect_usage({"publish", a, "--store", url_, "--anchor-every", "-1"}, "'-1' is negative");
  expect_usage({"publish", a, "--store", url_, "--keep-versions", "0x"},
               "'0x' is no number of digits");
  EXPECT_THAT(run_program({"publish", a, "--store", "s3://bucket/p", "--layout", "hf-xor"}).err,
              HasSubstr("file:PATH"));
  EXPECT_FALSE(fs::exists(at("store")));
  const ProgramRun missing = run_program({"store", "restore", url_, "-o", at("f.safetensors")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("cannot be opened"));
  const ProgramRun empty =
      run_program({"subscribe", url_, "-o", at("f.safetensors"), "--timeout", "0.2"});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_THAT(empty.err, HasSubstr("there is no version yet"));
}

// --- a store beside a publisher ---

TEST(StoreBeside, ThePublisherTellsOfVersionsAndTheStoreGivesThem) {
  Training training;
  const std::string url = "file:" + (training / "store"), out = training / "out";
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched(), "--store", url}));
  const std::string address = publisher.address();
  BackgroundProgram subscriber(
      subscribe(address, out, {"--store", url, "--from-store", "--store-patience", "60"}));
  for (int step = 1; step <= 3; ++step) {
    if (step > 1) training.write(step);
    const nlohmann::json line = subscriber.version(static_cast<std::uint64_t>(step));
    ASSERT_FALSE(line.is_null()) << subscriber.err();
    EXPECT_EQ(line["from_store"], true);
    EXPECT_EQ(line["source"], step == 1 ? "anchor" : "delta");
    expect_same(out, training.path(step));
  }
  EXPECT_TRUE(soon([&] {
    const nlohmann::json status = run_program({"status", address, "--json"}).json();
    return status["replicas"][0]["version"] == 3;
  }));
  const nlohmann::json replica = run_program({"status", address, "--json"}).json()["replicas"][0];
  EXPECT_EQ(replica["state"], "current");
  EXPECT_LT(replica["bytes_sent"], 3000);
  // A reader that starts again while the publisher is away; its FILE is a version of the store.
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0) << subscriber.err();
  EXPECT_EQ(publisher.end_by(SIGTERM), 0) << publisher.err();
  training.write(4);
  ASSERT_EQ(run_program({"publish", training.path(4), "--store", url}).exit_code, 0);
  BackgroundProgram alone(
      subscribe(address, out, {"--store", url, "--from-store", "--until", "4"}));
  EXPECT_EQ(alone.exit_code(), 0) << alone.err();
  EXPECT_EQ(alone.version(4)["source"], "delta") << "what FILE holds is not read again";
  expect_same(out, training.path(4));
}

TEST(StoreBeside, ReadersWithASecretTakeSignedVersionsFromTheStore) {
  Training training;
  const std::string url = "file:" + (training / "store"), out = training / "out",
                    secret = training / "secret", key = training / "key";
  ASSERT_EQ(run_program({"secret", "-o", secret}).exit_code, 0);
  ASSERT_EQ(run_program({"keygen", "-o", key}).exit_code, 0);
  training.write(1);
  BackgroundProgram publisher(publish({"--watch", training.watched(), "--store", url, "--secret",
                                       secret, "--key", key, "--model-id", "policy"}));
  BackgroundProgram subscriber(
      subscribe(publisher.address(), out,
                {"--store", url, "--from-store", "--store-patience", "60", "--secret",
                 secret + ".replicate", "--trust", key + ".pub", "--model-id", "policy"}));
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  training.write(2);
  const nlohmann::json second = subscriber.version(2);
  ASSERT_FALSE(second.is_null()) << subscriber.err();
  EXPECT_EQ(second["from_store"], true);
  EXPECT_EQ(second["source"], "delta");
  expect_same(out, training.path(2));
}

TEST(StoreBeside, OptionsThatDoNotFitAreNamed) {
  TempFolder folder;
  const std::string out = folder / "out", url = "file:" + (folder / "store");
  const auto refusal = [&](std::vector<std::string> more) {
    const ProgramRun run = run_program(subscribe("127.0.0.1:1", out, std::move(more)));
    EXPECT_EQ(run.exit_code, 2) << run.err;
    return run.err;
  };
  EXPECT_THAT(refusal({"--from-store"}), HasSubstr("needs --store URL"));
  EXPECT_THAT(refusal({"--store", url, "--store-patience", "1"}), HasSubstr("--from-store"));
  EXPECT_THAT(refusal({"--store", "folder"}), HasSubstr("'folder' is no address of a store"));
  EXPECT_THAT(refusal({"--store", url, "--tensors", "a"}), HasSubstr("whole models"));
  EXPECT_THAT(refusal({"--store", url, "--secret", "s"}), HasSubstr("needs --trust KEYFILE"));
  const ProgramRun follows = run_program({"subscribe", url, "-o", out, "--store", url});
  EXPECT_EQ(follows.exit_code, 2);
  EXPECT_THAT(follows.err, HasSubstr("a store is followed"));
}

}  // namespace
}  // namespace sparcl::test
