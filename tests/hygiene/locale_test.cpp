// Texts are read and written alike in every locale: here one with a decimal comma, which the test
// makes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_party.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

constexpr double kGenerousSeconds = 120;

class CommaLocale : public ::testing::Test {
 protected:
  CommaLocale() {
    std::string pattern = (fs::temp_directory_path() / "sparcl-test-locale-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    const std::string command =
        "localedef -i de_DE -f UTF-8 '" + folder_ + "/de_DE.UTF-8' >/dev/null 2>&1";
    has_locale_ = std::system(command.c_str()) == 0;
  }
  ~CommaLocale() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (!has_locale_) GTEST_SKIP() << "localedef cannot make de_DE here (Debian: locales)";
  }

  ProcessRecord run(std::vector<std::string> arguments,
                    std::vector<std::pair<std::string, std::string>> environment) const {
    environment.insert(environment.end(), {{"LOCPATH", folder_}, {"LC_ALL", "de_DE.UTF-8"}});
    ProcessParty party;
    const int process = party.start({std::move(arguments), std::move(environment)});
    EXPECT_GE(process, 0) << party.trouble();
    EXPECT_TRUE(party.finish(kGenerousSeconds));
    return party.record(process);
  }

  std::string folder_;
  bool has_locale_ = false;
};

// The program calls setlocale(LC_ALL, ""), and checks that numbers have commas then.
TEST_F(CommaLocale, TheLibraryReadsItsSettingsAndCostFile) {
  std::ofstream(folder_ + "/cost")
      << "round_s 0.000625\nmessage_s 1.5e-06\nbyte_s 2.5e-09\nentry_s 1.75e-09\n";
  const ProcessRecord record =
      run({SPARCL_TEST_LINKED, "comma-locale"}, {{"SPARCL_LINK_COST", folder_ + "/cost"},
                                                 {"SPARCL_TIMEOUT_S", "60.5"},
                                                 {"SPARCL_LIVENESS_S", "5.5"}});
  EXPECT_TRUE(record.exited_with(0)) << record.describe_end() << '\n' << record.errors;
}

#if SPARCL_TEST_WITH_TOOLS
// A library that the program loads may have called setlocale().
TEST_F(CommaLocale, TheProgramReadsAndWritesNumbers) {
  const std::pair<std::string, std::string> preload{"LD_PRELOAD", SPARCL_TEST_COMMA_LIBRARY};
  const ProcessRecord info =
      run({SPARCL_TEST_PROGRAM, "info", "--json"}, {preload, {"SPARCL_TIMEOUT_S", "60.5"}});
  EXPECT_TRUE(info.exited_with(0)) << info.errors;
  ASSERT_EQ(info.lines.size(), 1U) << info.errors;
  EXPECT_TRUE(nlohmann::json::accept(info.lines[0].text)) << info.lines[0].text;
  const ProcessRecord diff =
      run({SPARCL_TEST_PROGRAM, "diff", folder_ + "/absent", folder_ + "/absent", "-o",
           folder_ + "/out", "--threshold", "0.5"},
          {preload});
  EXPECT_THAT(diff.errors, Not(HasSubstr("threshold"))) << "0.5 is no number: " << diff.errors;
  EXPECT_THAT(diff.errors, HasSubstr("absent"));
}
#endif

}  // namespace
}  // namespace sparcl::test
