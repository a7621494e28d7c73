// Versions in folders of other programs: acknowledgements of readers, and the removal of versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/tools/background_program.hpp"
#include "tools/sparcl/acknowledged_removal.hpp"
#include "tools/sparcl/acknowledgement.hpp"

namespace sparcl::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSyncIndex = "/model.safetensors.index.json";

// All names in a folder, hidden ones included, in their order.
std::vector<std::string> names_below(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// A folder of versions 1 to 8, of which 1, 4 and 7 are complete.
class AcknowledgedRemoval : public testing::Test {
 protected:
  void SetUp() override {
    for (int version = 1; version <= 8; ++version) make(version, version % 3 == 1);
    ASSERT_TRUE(removal_.open().ok());
  }
  static std::string name_of(int version) { return fmt::format("weight_v{:06}", version); }
  void make(int version, bool is_complete) const {
    const std::string path = folder_ / name_of(version);
    fs::create_directory(path);
    write_text(path + kSyncIndex, fmt::format(R"({{"metadata": {{{}}}, "weight_map": {{}}}})",
                                              is_complete ? "" : R"("delta_encoding": "xor")"));
  }
  void acknowledge(const std::string& reader, const std::string& text) const {
    write_text(tool::acknowledgement_path(folder_.path().string(), reader), text);
  }
  std::uint64_t remove() { return removal_.remove(0).versions; }
  // The versions that are left.
  std::vector<int> left() const {
    std::vector<int> versions;
    for (int version = 0; version <= 200; ++version) {
      if (fs::exists(folder_ / name_of(version) + kSyncIndex)) versions.push_back(version);
    }
    return versions;
  }

  TempFolder folder_;
  tool::AcknowledgedRemoval removal_{folder_.path().string(), {"a", "b"}};
};

TEST_F(AcknowledgedRemoval, FollowsTheSlowestReader) {
  acknowledge("a", "8\n");
  acknowledge("b", "3\n");
  EXPECT_EQ(remove(), 0u);
  acknowledge("b", "6\n");
  EXPECT_EQ(remove(), 3u);
  EXPECT_THAT(left(), ElementsAre(4, 5, 6, 7, 8));
  acknowledge("b", "4\n");  // it begins again, which keeps what it needs
  EXPECT_EQ(remove(), 0u);
  acknowledge("b", "7\n");
  const tool::RemovedVersions removed = removal_.remove(0);
  EXPECT_EQ(removed.versions, 3u);
  EXPECT_GT(removed.bytes, 0u);
  EXPECT_THAT(names_below(folder_.path().string()),
              ElementsAre("acks", "weight_v000007", "weight_v000008"));
}

TEST_F(AcknowledgedRemoval, LinksAndOtherFoldersStay) {
  fs::rename(folder_ / name_of(2), folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / name_of(2));
  for (const char* const name : {"weight_v3", "weight_v000001.old", "step_1"})
    fs::create_directory(folder_ / name);
  acknowledge("a", "4\n");
  acknowledge("b", "4\n");
  EXPECT_EQ(remove(), 2u);
  EXPECT_THAT(left(), ElementsAre(2, 4, 5, 6, 7, 8));
  for (const char* const name : {"elsewhere", "weight_v3", "weight_v000001.old", "step_1"})
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
}

TEST_F(AcknowledgedRemoval, WithoutTheCompleteVersionNothingIsRemoved) {
  fs::remove_all(folder_ / name_of(7));
  acknowledge("a", "8\n");
  acknowledge("b", "8\n");
  EXPECT_EQ(remove(), 0u);
  EXPECT_THAT(left(), ElementsAre(1, 2, 3, 4, 5, 6, 8));
  EXPECT_EQ(remove(), 3u) << "version 4 is complete";
}

TEST_F(AcknowledgedRemoval, AMissingOrDamagedAcknowledgementKeepsAllVersions) {
  acknowledge("a", "8\n");
  const std::string path = tool::acknowledgement_path(folder_.path().string(), "b");
  testing::internal::CaptureStderr();
  EXPECT_EQ(remove(), 0u) << "missing";
  for (const std::string text : {"", "\n", "8", "-8\n", "+8\n", " 8\n", "8 \n", "8\n\n", "0x8\n",
                                 "eight\n", "99999999999999999999\n", "9\n"}) {
    acknowledge("b", text);
    EXPECT_EQ(remove(), 0u) << text;
  }
  acknowledge("b", std::string(1 << 20, '8'));
  EXPECT_EQ(remove(), 0u) << "large";
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(remove(), 0u) << "a folder";
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(remove(), 0u) << "a pipe";
  fs::remove(path);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("until reader b acknowledges one: " + path));
  EXPECT_EQ(std::ranges::count(said, '\n'), 3) << "missing, damaged, no file: " << said;
  acknowledge("b", "08\n");
  EXPECT_EQ(remove(), 6u);
}

// Left from an earlier run in this folder.
TEST_F(AcknowledgedRemoval, ANumberThatNoVersionHadDoesNotCountLater) {
  acknowledge("a", "8\n");
  acknowledge("b", "10\n");
  EXPECT_EQ(remove(), 0u);
  make(10, true);
  removal_.add(10, true);
  acknowledge("a", "10\n");
  EXPECT_EQ(remove(), 0u);
  acknowledge("b", "4\n");
  EXPECT_EQ(remove(), 3u);
  acknowledge("b", "10\n");
  EXPECT_EQ(remove(), 5u);
  EXPECT_THAT(left(), ElementsAre(10));
}

TEST(Acknowledgement, NamesOfReadersAreOnePartOfAPath) {
  for (const std::string name : {"a", "engine-1", "host_2.example", "0"})
    EXPECT_EQ(tool::reader_name_fault(name), "") << name;
  for (const std::string name : {"", ".", "..", ".a", "a/b", "a b", "\xc3\xa4", "a\n"})
    EXPECT_THAT(tool::reader_name_fault(name), HasSubstr("no name of a reader")) << name;
  EXPECT_NE(tool::reader_name_fault(std::string(129, 'a')), "");
}

TEST(Acknowledgement, IsWrittenAgainAfterAFailure) {
  const TempFolder folder;
  const std::string path = tool::acknowledgement_path(folder.path().string(), "r");
  tool::Acknowledger acknowledger(folder.path().string(), "r");
  write_text(folder / "acks", "no folder");
  acknowledger.note("sync/weight_v000012");
  acknowledger.write(0);
  fs::remove(folder / "acks");
  acknowledger.write(1);
  EXPECT_FALSE(fs::exists(path)) << "too early";
  acknowledger.write(1000);
  EXPECT_EQ(read_text(path), "12\n");
  EXPECT_EQ(*tool::read_acknowledgement(path), 12u);
  acknowledger.note("sync/final.safetensors");
  acknowledger.write(2000);
  EXPECT_EQ(read_text(path), "12\n") << "a name without a number";
}

class LayoutPrograms : public testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }
  // A file of the next state.
  std::string next_file(const std::string& name) {
    change(tensors_, 0.01, ++seed_);
    write_model(at("unfinished"), tensors_);
    fs::rename(at("unfinished"), at(name));
    return at(name);
  }
  std::vector<std::string> command(std::vector<std::string> more) const {
    more.insert(more.begin(), "publish");
    more.insert(more.end(), {"--store", "file:" + sync_, "--layout", "hf-xor", "--anchor-every",
                             "2", "--readers", "r", "--json"});
    return more;
  }
  bool is_complete(int version) const {
    const std::string index =
        read_text(fmt::format("{}/weight_v{:06}{}", sync_, version, kSyncIndex));
    EXPECT_NE(index, "") << version;
    return index.find("delta_encoding") == index.npos;
  }
  // From a folder of shards or a file to a file, or a folder with other shards.
  static void expect_same_tensors(const std::string& a, const std::string& b) {
    const Result<model::Checkpoint> got = model::Checkpoint::open(a),
                                    expected = model::Checkpoint::open(b);
    ASSERT_TRUE(got.ok() && expected.ok());
    ASSERT_EQ(got->schema().size(), expected->schema().size());
    for (std::size_t tensor = 0; tensor < got->schema().size(); ++tensor)
      EXPECT_TRUE(std::ranges::equal(got->bytes(tensor), expected->bytes(tensor))) << tensor;
  }

  TempFolder folder_;
  const std::string sync_ = folder_ / "sync";
  Tensors tensors_ = small_model();
  std::uint64_t seed_ = 0;
};

TEST_F(LayoutPrograms, ARemovalThatWasKilledIsCompletedAtTheNextStart) {
  const std::string a = next_file("a.safetensors"), b = next_file("b.safetensors"),
                    c = next_file("c.safetensors"), d = next_file("d.safetensors");
  const ProgramRun first = run_program(command({a, b, c}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_TRUE(is_complete(1) && !is_complete(2) && is_complete(3));
  EXPECT_THAT(first.err, HasSubstr("sync/acks/r"));
  ASSERT_TRUE(tool::write_acknowledgement(sync_, "r", 3).ok());
  const ProgramRun killed =
      run_program(command({d}), "SPARCL_TEST_FAILPOINT=layout.remove:2:kill ");
  EXPECT_NE(killed.exit_code, 0);
  EXPECT_THAT(names_below(sync_),
              ElementsAre(".weight_v000001.sparcl-removed", "acks", "weight_v000003"));
  const ProgramRun again = run_program(command({d}));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(names_below(sync_), ElementsAre("acks", "weight_v000003", "weight_v000004"));
  EXPECT_EQ(again.json()["removed_versions"], 0) << "the first of a process is complete";
  ASSERT_TRUE(tool::write_acknowledgement(sync_, "r", 4).ok());
  const ProgramRun last = run_program(command({next_file("e.safetensors")}));
  EXPECT_THAT(last.out, HasSubstr(R"({"ok":true,"removed_versions":1,"removed_bytes":)"));
  EXPECT_THAT(names_below(sync_), ElementsAre("acks", "weight_v000004", "weight_v000005"));
}

// A trainer's checkpoints, folders of changes, and a reader of these, which is started again.
TEST_F(LayoutPrograms, AReaderThatAcknowledgesGetsEachVersionWhileOldOnesAreRemoved) {
  fs::create_directory(at("steps"));
  std::vector<std::string> files;
  const auto step = [&] {
    files.push_back(next_file(fmt::format("steps/{}.safetensors", files.size() + 1)));
  };
  for (int i = 0; i < 4; ++i) step();
  BackgroundProgram publisher(command({"--watch", at("steps"), "--version-from", "name"}));
  ASSERT_FALSE(publisher.version(4).is_null()) << publisher.err();
  const std::string chain = "file:" + at("chain");
  const auto acknowledges = [&](int version) {
    return soon([&, text = fmt::format("{}\n", version)] {
      return fs::exists(sync_ + "/acks/r") && read_text(sync_ + "/acks/r") == text;
    });
  };
  const std::vector<std::string> read{"publish", "--watch",       sync_,
                                      "--store", chain,           "--version-from",
                                      "name",    "--acknowledge", "r"};
  {
    BackgroundProgram reader(read);
    EXPECT_TRUE(acknowledges(4)) << reader.err();
    EXPECT_EQ(reader.end_by(SIGTERM), 0);
  }
  step();
  const nlohmann::json fifth = publisher.version(5);
  EXPECT_EQ(fifth["removed_versions"], 2) << publisher.err();
  EXPECT_THAT(names_below(sync_),
              ElementsAre("acks", "weight_v000003", "weight_v000004", "weight_v000005"));
  BackgroundProgram reader(read);
  EXPECT_TRUE(acknowledges(5)) << reader.err();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string back = at(fmt::format("back-{}", i)), version = fmt::format("{}", i + 1);
    const ProgramRun restored =
        run_program({"store", "restore", chain, "-o", back, "--version", version});
    ASSERT_EQ(restored.exit_code, 0) << restored.err;
    expect_same_tensors(back, files[i]);
  }
}

TEST_F(LayoutPrograms, ChangedFilesBesideTheShardsMakeACompleteVersion) {
  std::vector<std::string> arguments;
  for (const char* const tokenizer : {"one", "one", "two", "two"}) {
    change(tensors_, 0.01, ++seed_);
    arguments.push_back(at(fmt::format("step_{}", seed_)));
    write_shards(arguments.back(), tensors_, 3);
    write_text(arguments.back() + "/tokenizer.json", tokenizer);
  }
  arguments.insert(arguments.begin(), "publish");
  arguments.insert(arguments.end(), {"--store", "file:" + sync_, "--layout", "hf-xor"});
  const ProgramRun run = run_program(arguments);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("step_3, complete, "));
  EXPECT_TRUE(is_complete(1) && !is_complete(2) && is_complete(3) && !is_complete(4));
  EXPECT_EQ(read_text(sync_ + "/weight_v000003/tokenizer.json"), "two");
  BackgroundProgram reader({"publish", "--watch", sync_, "--store", "file:" + at("chain")});
  ASSERT_FALSE(reader.version(4).is_null()) << reader.err();
  ASSERT_EQ(run_program({"store", "restore", "file:" + at("chain"), "-o", at("back")}).exit_code,
            0);
  expect_same_tensors(at("back"), arguments[4]);
  EXPECT_EQ(read_text(at("back/tokenizer.json")), "two");
}

TEST_F(LayoutPrograms, WrongCommandLinesAreNamed) {
  const std::string a = next_file("a.safetensors"), store = "file:" + at("store");
  const auto expect_usage = [](const std::vector<std::string>& arguments, const char* what) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(what));
  };
  expect_usage({"publish", a, "--store", store, "--readers", "r"}, "--layout");
  expect_usage({"publish", a, "--store", store, "--layout", "sparcl", "--readers", "r"},
               "--keep-versions");
  expect_usage({"publish", a, "--store", store, "--layout", "hf-xor", "--readers", "a", "b/c"},
               "no name of a reader");
  expect_usage({"publish", a, "--store", store, "--acknowledge", "r"}, "--watch");
  EXPECT_FALSE(fs::exists(at("store")));
}

}  // namespace
}  // namespace sparcl::test
