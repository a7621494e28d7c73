// Loading or linking the library changes nothing in the process; a communicator changes no signal,
// no variable and no locale.

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_party.hpp"

namespace sparcl::test {
namespace {

ProcessRecord run_to_end(std::vector<std::string> arguments,
                         std::vector<std::pair<std::string, std::string>> environment = {}) {
  constexpr double kGenerousSeconds = 120;
  ProcessParty party;
  const int process = party.start({std::move(arguments), std::move(environment)});
  EXPECT_GE(process, 0) << party.trouble();
  if (process < 0) return {};
  EXPECT_TRUE(party.finish(kGenerousSeconds)) << "it did not end";
  return party.record(process);
}

void expect_undisturbed(const ProcessRecord& record) {
  EXPECT_TRUE(record.exited_with(0)) << record.describe_end() << '\n' << record.errors;
  EXPECT_TRUE(record.lines.empty()) << "on standard output: " << record.lines.front().text;
}

TEST(ProcessHygiene, LinkingChangesNothing) {
  expect_undisturbed(run_to_end({SPARCL_TEST_LINKED, "load"}));
}

TEST(ProcessHygiene, LoadingChangesNothing) {
  expect_undisturbed(run_to_end({SPARCL_TEST_LOADER, SPARCL_TEST_LIBRARY}));
}

TEST(ProcessHygiene, ThreadRanksKeepSignalsEnvironmentAndLocale) {
  expect_undisturbed(run_to_end({SPARCL_TEST_LINKED, "loopback"}));
}

#if SPARCL_TEST_WITH_UCX
TEST(ProcessHygiene, UcxKeepsSignalsEnvironmentAndLocale) {
  expect_undisturbed(run_to_end({SPARCL_TEST_LINKED, "ucx"}));
}

TEST(ProcessHygiene, UcxKeepsTheHandlersOfTheProgram) {
  expect_undisturbed(run_to_end({SPARCL_TEST_LINKED, "own-handler"}));
}

TEST(ProcessHygiene, HangUpEndsAProgramThatUsesUcx) {
  const ProcessRecord record = run_to_end({SPARCL_TEST_LINKED, "hang-up"});
  EXPECT_TRUE(record.died_of(SIGHUP)) << record.describe_end() << '\n' << record.errors;
}

TEST(ProcessHygiene, MessagesOfUcxGoToStandardError) {
  const ProcessRecord record = run_to_end({SPARCL_TEST_LINKED, "ucx"}, {{"UCX_LOG_LEVEL", "info"}});
  expect_undisturbed(record);
  EXPECT_NE(record.errors.find("UCX"), std::string::npos) << record.errors;
}

TEST(ProcessHygiene, HandlersOfUcxAreOnWhereTheUserWantsThem) {
  const ProcessRecord record =
      run_to_end({SPARCL_TEST_LINKED, "ucx"}, {{"UCX_HANDLE_ERRORS", "bt"}});
  EXPECT_TRUE(record.exited_with(1)) << record.describe_end();
  EXPECT_NE(record.errors.find("the disposition of signal 11 changed"), std::string::npos)
      << record.errors;
}
#endif

}  // namespace
}  // namespace sparcl::test
