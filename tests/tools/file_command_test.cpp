// The commands on files as calls of file.h: their words, warnings and progress are the program's.
#include "tools/sparcl/file_command.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "src/model/output_folder.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Standard error is a terminal, until read().
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)), before_(::dup(STDERR_FILENO)) {
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    is_made_ = slave >= 0 && ::dup2(slave, STDERR_FILENO) == STDERR_FILENO;
    if (slave >= 0) ::close(slave);
  }
  ~Terminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    if (master_ >= 0) ::close(master_);
  }
  bool is_made() const { return is_made_; }
  // All of it: the kernel may pass it on in pieces.
  std::string read() {
    constexpr int kQuietMs = 300;
    std::string text;
    for (pollfd entry{master_, POLLIN, 0}; ::poll(&entry, 1, kQuietMs) > 0;) {
      char piece[4096];
      const ssize_t count = ::read(master_, piece, sizeof piece);
      if (count <= 0) break;
      text.append(piece, static_cast<std::size_t>(count));
    }
    ::dup2(before_, STDERR_FILENO);
    return text;
  }

 private:
  int master_;
  int before_;
  bool is_made_ = false;
};

TEST(FileCommand, ProgressIsClearedBeforeOtherOutput) {
  for (const bool has_warning : {false, true}) {
    Terminal terminal;
    ASSERT_TRUE(terminal.is_made());
    {
      tool::FileCommand command("hash");
      const sparclFileOptions_t options = command.options();
      std::this_thread::sleep_for(std::chrono::milliseconds(600));  // as long as it is not shown
      EXPECT_EQ(options.on_progress(1, 2, options.arg), sparclSuccess);
      options.on_note(sparclFileNotInIndex, "a/b", options.arg);
      if (has_warning) {
        command.warn();
      } else {
        EXPECT_TRUE(command.status("sparclFileHash", sparclSuccess).ok());
        ASSERT_EQ(::write(STDERR_FILENO, "result", 6), 6);
      }
    }
    const std::string clear = "\rhash:  50 %\r\x1b[K";
    EXPECT_THAT(terminal.read(),
                StartsWith(clear + (has_warning ? "sparcl: warning: a/b: " : "result")));
  }
}

using FileCommands = DiffedModels;

TEST_F(FileCommands, FlagsReplaceOnlyTheLibrarysWords) {
  const std::string folder = at("without options.only and options.selection first");
  const std::string base = folder + "/give it as `base`", delta = folder + "/options.only";
  fs::create_directory(folder);
  fs::copy(at("target"), base);
  fs::copy(at("delta"), delta);
  const ProgramRun wrong = run_program({"apply", base, delta, "-o", at("out")});
  EXPECT_EQ(wrong.exit_code, 3);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("error: " + base + ": "), HasSubstr(" of " + delta)));
  const ProgramRun missing = run_program({"hash", "options.only"});
  EXPECT_THAT(missing.err, HasSubstr("error: options.only: cannot be opened"));

  const auto expect = [&](std::vector<std::string> arguments, const std::string& text) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 1) << text;
    EXPECT_THAT(run.err, HasSubstr(text));
    EXPECT_THAT(run.err, AllOf(Not(HasSubstr("sparclFile")), Not(HasSubstr("selection"))));
  };
  expect({"diff", at("base"), at("target"), "-o", at("out"), "--only", "options.only"},
         "error: --only 'options.only' names no tensor; ");
  expect({"convert", at("delta"), "--to", "coo", "-o", at("out")},
         "give the checkpoint by --base\n");
  Tensors more = base_;
  add_tensor(more, "more", DataType::kFloat32, {10}, 9);
  write_model(at("more"), more);
  expect(
      {"diff", at("base"), at("more"), "-o", at("out"), "--only", "more"},
      "make a delta without --threshold, --largest, --budget, --grid, --only and --values first");
}

TEST_F(FileCommands, EmptyPathsAreFilesThatAreNotThere) {
  const auto expect = [](std::vector<std::string> arguments, const std::string& error,
                         const std::string& text) {
    arguments.emplace_back("--json");
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 1) << arguments[0];
    EXPECT_EQ(run.json()["error"], error) << arguments[0];
    EXPECT_EQ(run.json()["message"], text) << arguments[0];
  };
  const std::string none = ": cannot be opened: No such file or directory";
  for (const char* command : {"hash", "verify", "inspect"})
    expect({command, ""}, "sparclSystemError", none);
  expect({"diff", at("base"), "", "-o", at("out")}, "sparclSystemError", none);
  expect({"advise", at("base"), ""}, "sparclSystemError", none);
  for (const std::vector<std::string>& writer :
       {std::vector<std::string>{"diff", at("base"), at("target"), "-o", ""},
        {"apply", at("base"), at("delta"), "-o", ""},
        {"invert", at("base"), at("delta"), "-o", ""}})
    expect(writer, "sparclInvalidArgument", "the name of the output is empty: give one");
  expect({"diff", at("base"), at("target"), "-o", at("out"), "--only", ""}, "sparclInvalidArgument",
         "--only '' names no tensor; `sparcl inspect` lists them");
}

// One warning each time that a checkpoint is opened; of a diff one for both.
TEST_F(FileCommands, StraysAreWarnedOfOnceForEachCheckpoint) {
  for (const std::string folder : {"f0", "f1"}) {
    fs::create_directory(at(folder));
    fs::copy(at(folder == "f0" ? "base" : "target"), at(folder + "/model.safetensors"));
    for (const char* stray : {"/x.safetensors", "/y.safetensors"})
      fs::copy(at("base"), at(folder + stray));
    nlohmann::json map;
    for (const model::TensorSchema& tensor : base_.schema) map[tensor.name] = "model.safetensors";
    write_text(at(folder + "/model.safetensors.index.json"),
               nlohmann::json{{"weight_map", map}}.dump());
  }
  const auto warnings = [&](const std::vector<std::string>& arguments) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<std::string> found;
    for (std::size_t begin = 0, end; (end = run.err.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string line = run.err.substr(begin, end - begin);
      found.push_back(line.substr(0, line.find(": not in the folder's index")));
    }
    return found;
  };
  const auto strays = [&](const std::string& folder) {
    return at(folder + "/x.safetensors") + ", " + at(folder + "/y.safetensors");
  };
  const std::string first = "sparcl: warning: " + strays("f0");
  const std::string second = "sparcl: warning: " + strays("f1");
  EXPECT_THAT(warnings({"diff", at("f0"), at("f1"), "-o", at("delta")}),
              ElementsAre("sparcl: warning: " + strays("f0") + ", " + at("f1/x.safetensors") +
                          " and 1 more"));
  EXPECT_THAT(warnings({"hash", at("f0")}), ElementsAre(first));
  EXPECT_THAT(warnings({"apply", at("f0"), at("delta"), "-o", at("out")}), ElementsAre(first));
  EXPECT_THAT(warnings({"advise", at("f0"), at("f1")}), ElementsAre(first, second));
  EXPECT_THAT(warnings({"advise", at("f0"), at("f0")}), ElementsAre(first, first));
  EXPECT_THAT(
      warnings({"convert", at("delta"), "--to", "sparcl", "--base", at("f0"), "-o", at("again")}),
      ElementsAre(first, first));
}

TEST_F(FileCommands, ANulInATensorsNameIsInTheJson) {
  Tensors other = base_;
  other.schema[0].name = std::string("a\0b", 3);
  write_model(at("other"), other);
  const ProgramRun run =
      run_program({"diff", at("base"), at("other"), "-o", at("delta"), "--json"});
  EXPECT_EQ(run.json()["added"], nlohmann::json::array({other.schema[0].name})) << run.err;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(FileCommands, WithoutMemoryTheLimitIsNamed) {
  fs::copy(at("delta"), at("large"));  // it begins like a delta
  fs::resize_file(at("large"), std::uintmax_t{4} << 30);
  const ProgramRun run = run_program({"verify", at("large"), "--json"}, "ulimit -v 1000000; ");
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.json()["error"], "sparclOutOfMemory");
  EXPECT_THAT(run.err, HasSubstr("or raise this process's limit (ulimit -v)\n"));
}
#endif

// Only what the call has found at its output is removed.
TEST_F(FileCommands, AFolderThatAnotherProgramPutsThereStays) {
  write_shards(at("shards"), base_, 3);
  Result<model::Checkpoint> shards = model::Checkpoint::open_unread(at("shards"));
  ASSERT_TRUE(shards.ok());
  const model::Layout& layout = shards->layout();
  Result<model::OutputFolder> folder = model::OutputFolder::create(at("shards"), layout, &layout);
  ASSERT_TRUE(folder.ok()) << folder.status().message();
  fs::rename(at("shards"), at("moved"));
  fs::create_directory(at("shards"));
  write_text(at("shards/mine.safetensors"), "mine");
  const Status status = folder->commit();
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_THAT(status.message(), HasSubstr("another program has replaced it"));
  { const model::OutputFolder gone = std::move(*folder); }
  EXPECT_EQ(read_text(at("shards/mine.safetensors")), "mine");
  for (const model::FileLayout& file : layout.files)
    EXPECT_TRUE(fs::exists(at("moved") + "/" + file.name)) << file.name;
  for (const auto& entry : fs::directory_iterator(folder_.path()))
    EXPECT_THAT(entry.path().filename().string(), Not(HasSubstr(".sparcl-")));
}

}  // namespace
}  // namespace sparcl::test
