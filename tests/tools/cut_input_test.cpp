// Inputs that another program cuts or rewrites while they are read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "src/model/files/delta_maker.hpp"
#include "tests/tools/background_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kTensorBytes = std::uint64_t{192}
                                       << 20;  // read for some tens of milliseconds at least

class CutInput : public ::testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }

  // Zeros that take no disk; one byte differs.
  void write_large(const std::string& path, char byte) const {
    const std::string header =
        fmt::format(R"({{"t":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{}]}}}})",
                    kTensorBytes / 2, kTensorBytes);
    write_text(path, file_of(header, std::string(1, byte)));
    fs::resize_file(path, 8 + header.size() + kTensorBytes);
  }

  // Runs the command, stops it once it has the file open, cuts the file, and lets it go on. True:
  // it was caught in time.
  bool run_and_cut(const std::vector<std::string>& arguments, const std::string& file) {
    BackgroundProgram program(arguments);
    const auto has_it_open = [&] {
      std::error_code error;
      for (fs::directory_iterator each(fmt::format("/proc/{}/fd", program.pid()), error), end;
           !error && each != end; each.increment(error)) {
        std::error_code gone;
        if (fs::read_symlink(each->path(), gone) == file) return true;
      }
      return program.has_ended();
    };
    while (!has_it_open()) continue;
    program.stop();
    fs::resize_file(file, 4096);
    const int code = program.end_by(SIGCONT);
    if (code == 0) return false;  // it had all of it by then
    EXPECT_EQ(code, 3) << arguments[0] << ": " << program.err();
    // "is cut": it was stopped before it had looked at the size.
    EXPECT_THAT(program.err(),
                AllOf(HasSubstr(file), AnyOf(HasSubstr("another program"), HasSubstr("is cut"))))
        << arguments[0];
    return true;
  }

  TempFolder folder_;
};

TEST_F(CutInput, IsANamedErrorAndNothingIsLeft) {
  write_large(at("base"), 'a');
  write_large(at("target"), 'b');
  for (const auto& [from, to] : {std::pair("base", "target"), std::pair("target", "base")})
    ASSERT_EQ(
        run_program({"diff", at(from), at(to), "-o", at(std::string(from) + ".delta")}).exit_code,
        0);
  struct Case {
    std::vector<std::string> arguments;
    std::string cut;
  };
  const std::string delta = at("base.delta"), out = at("out");
  const std::vector<Case> cases{
      {{"hash", at("base")}, "base"},
      {{"hash", at("base"), "--kind", "xxh3"}, "base"},
      {{"hash", at("base"), "--kind", "sha256"}, "base"},
      {{"inspect", at("base")}, "base"},
      {{"diff", at("base"), at("target"), "-o", out}, "base"},
      {{"diff", at("base"), at("target"), "-o", out}, "target"},
      {{"diff", at("base"), at("target"), "-o", out, "--largest", "1"}, "target"},
      {{"apply", at("base"), delta, "-o", out}, "base"},
      {{"advise", at("base"), at("target")}, "target"},
      {{"invert", at("base"), delta, "-o", out}, "base"},
      {{"compose", delta, at("target.delta"), "--base", at("base"), "-o", out}, "base"},
      {{"convert", delta, "--to", "coo", "--base", at("base"), "-o", out}, "base"},
  };
  for (const Case& each : cases) {
    bool is_caught = false;
    for (int i = 0; i < 100 && !is_caught; ++i) {
      write_large(at(each.cut), each.cut == "base" ? 'a' : 'b');
      is_caught = run_and_cut(each.arguments, at(each.cut));
      if (!is_caught) fs::remove_all(out);
    }
    EXPECT_TRUE(is_caught) << each.arguments[0];
    write_large(at(each.cut), each.cut == "base" ? 'a' : 'b');
    EXPECT_EQ(folder_.count(), 4u) << each.arguments[0] << ": more is there than the inputs";
  }
}

TEST_F(CutInput, OneThatIsRewrittenMeanwhileIsNoBase) {
  write_model(at("base"), small_model(1));
  write_model(at("target"), small_model(2));
  const Result<model::OpenCheckpoint> base = model::open_checkpoint(at("base")),
                                      target = model::open_checkpoint(at("target"));
  ASSERT_TRUE(base.ok() && target.ok());
  const auto diff = [&] {
    return model::write_delta(base->view(), target->view(), at("delta")).status();
  };
  ASSERT_TRUE(diff().ok());
  fs::remove(at("delta"));
  write_model(at("next"), small_model(3));
  fs::rename(at("next"), at("target"));
  EXPECT_TRUE(diff().ok()) << "what was opened is still whole";
  fs::remove(at("delta"));
  {
    std::fstream file(at("base"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end).put('x');
  }
  fs::last_write_time(at("base"), fs::last_write_time(at("base")) + std::chrono::seconds(1));
  const Status status = diff();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(at("base")), HasSubstr("another program has written to it")));
  EXPECT_EQ(folder_.count(), 2u);
}

}  // namespace
}  // namespace sparcl::test
