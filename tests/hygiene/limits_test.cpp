// Limits of the machine, real ones: a named error with the value, the need and the cure, or a run
// without what is missing. Never a signal.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/process_party.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Two ranks of one process (hygiene_linked.c), or another program.
ProcessRecord run_under(const std::string& limit, const std::string& program,
                        std::vector<std::pair<std::string, std::string>> environment = {}) {
  constexpr double kGenerousSeconds = 120;
  ProcessParty party;
  const int process = party.start({{"/bin/bash", "-c", limit + program}, std::move(environment)});
  EXPECT_GE(process, 0) << party.trouble();
  if (process < 0) return {};
  EXPECT_TRUE(party.finish(kGenerousSeconds)) << "it did not end";
  return party.record(process);
}

ProcessRecord run_ucx(const std::string& limit,
                      std::vector<std::pair<std::string, std::string>> environment = {}) {
  return run_under(limit, "exec " SPARCL_TEST_LINKED " ucx", std::move(environment));
}

std::string text_of(const ProcessRecord& record) {
  std::string text = record.describe_end() + '\n' + record.errors;
  for (const ProcessLine& line : record.lines) text += line.text + '\n';
  return text;
}

// Both ranks say why.
void expect_refused(const ProcessRecord& record, const std::string& value, const std::string& need,
                    const std::string& cure) {
  EXPECT_TRUE(record.exited_with(1)) << text_of(record);
  for (const std::string& part : {value, need, cure}) {
    const std::size_t first = record.errors.find(part);
    EXPECT_NE(first, std::string::npos) << part << "\nis missing in: " << text_of(record);
    EXPECT_NE(record.errors.find(part, first + 1), std::string::npos)
        << "only one rank says " << part << ": " << text_of(record);
  }
}

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

constexpr const char* kWithoutRoot = "only root can give a process a /dev/shm of its own";
bool may_mount() { return ::geteuid() == 0 && ::system("unshare -m true 2>/dev/null") == 0; }
std::string with_shared_memory(const std::string& size, const std::string& command) {
  return fmt::format(
      "exec unshare -m bash -c 'mount -t tmpfs -o size={} tmpfs /dev/shm && exec {}'", size,
      command);
}

TEST(Limits, ASmallFileSizeLeavesTheFlightRecordOut) {
  for (const char* limit : {"ulimit -f 1000; ", "ulimit -f 0; "}) {
    const ProcessRecord record = run_under(limit, "exec " SPARCL_TEST_LINKED " loopback");
    EXPECT_TRUE(record.exited_with(0)) << text_of(record);
    EXPECT_EQ(count(record.errors, "no file for the flight record"), 1) << text_of(record);
    EXPECT_THAT(record.errors, HasSubstr("ulimit -f"));
  }
}

TEST(Limits, AFullSharedMemoryLeavesTheFlightRecordOut) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  const ProcessRecord record = run_under(
      "", with_shared_memory(
              "8k", "bash -c \"head -c 9000 /dev/zero >/dev/shm/x; exec " SPARCL_TEST_LINKED
                    " loopback\""));
  EXPECT_TRUE(record.exited_with(0)) << text_of(record);
}

// The record of a process that has died is marked by the next one, which may write no file at all.
TEST(Limits, NoFileAtAllLeavesOtherRecordsAlone) {
  const ProcessRecord dead = run_under("", "exec " SPARCL_TEST_LINKED " leave-record");
  EXPECT_TRUE(dead.died_of(SIGKILL)) << text_of(dead);
  const std::string left = fmt::format("/dev/shm/sparcl-flight-{}-{}", ::geteuid(), dead.pid);
  const ProcessRecord record = run_under("ulimit -f 0; ", "exec " SPARCL_TEST_LINKED " loopback");
  EXPECT_TRUE(record.exited_with(0)) << text_of(record);
  ::unlink(left.c_str());
}

#if SPARCL_TEST_WITH_UCX
TEST(Limits, ASmallFileSizeIsNamedBeforeUcxIsCalled) {
  expect_refused(run_ucx("ulimit -f 4000; "), "files may have 4.1 MB",
                 "transport ucx needs one of 4.7 MB", "ulimit -f unlimited");
  const ProcessRecord record = run_ucx("ulimit -f 4000; ", {{"UCX_TLS", "^posix"}});
  EXPECT_TRUE(record.exited_with(0)) << "the second cure is none: " << text_of(record);
}

TEST(Limits, FewDescriptorsAreNamedBeforeUcxIsCalled) {
  for (const char* limit : {"ulimit -n 16; ", "ulimit -n 20; ", "ulimit -n 30; "})
    expect_refused(run_ucx(limit), "this process may have ", "transport ucx needs up to ",
                   "ulimit -n 1024");
}

TEST(Limits, FewThreadsAreNamedBeforeUcxIsCalled) {
  if (::geteuid() != 0 ||
      ::system("setpriv --reuid 60321 --clear-groups test -x " SPARCL_TEST_LINKED) != 0)
    GTEST_SKIP() << "root has no limit of processes, and no other user can be taken here";
  // Two ranks' threads and that of the unique id can start, and one more.
  const ProcessRecord record =
      run_under("exec setpriv --reuid 60321 --clear-groups bash -c 'ulimit -u 5; ",
                "exec " SPARCL_TEST_LINKED " ucx'");
  EXPECT_TRUE(record.exited_with(1)) << text_of(record);
  EXPECT_THAT(record.errors, AllOf(HasSubstr("threads could be started"),
                                   HasSubstr("ulimit -u is 5"), HasSubstr("--pids-limit")));
}

TEST(Limits, ASmallSharedMemoryIsNamedBeforeUcxIsCalled) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  expect_refused(run_under("", with_shared_memory("2m", SPARCL_TEST_LINKED " ucx")),
                 "/dev/shm has 2.1 MB free of 2.1 MB",
                 "transport ucx needs 4.7 MB there for each rank", "docker run --shm-size=1g");
  const ProcessRecord record =
      run_under("", with_shared_memory("2m", SPARCL_TEST_LINKED " ucx"), {{"UCX_TLS", "^posix"}});
  EXPECT_TRUE(record.exited_with(0)) << "the second cure is none: " << text_of(record);
}

// Each rank finds enough for itself, but there is not enough for both, which are processes.
TEST(Limits, ASharedMemoryForHalfOfTheRanksIsNamedByAll) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  const ProcessRecord record =
      run_under("", with_shared_memory("7m", SPARCL_TEST_LINKED " processes"));
  expect_refused(record, "/dev/shm has ", "transport ucx needs 4.7 MB there for each rank",
                 "docker run --shm-size=1g");
  EXPECT_EQ(count(record.errors, " cannot take part: "), 1) << text_of(record);
  EXPECT_EQ(count(record.errors, "UCX  ERROR"), 0) << "UCX was called: " << text_of(record);
  const ProcessRecord shared = run_under("", with_shared_memory("7m", SPARCL_TEST_LINKED " ucx"));
  EXPECT_TRUE(shared.exited_with(0)) << "ranks of one process need it once: " << text_of(shared);
}
#endif

#if SPARCL_TEST_WITH_UCX
TEST(Limits, AddressesThatUcxCannotUseAreNamed) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  const std::string network =
      "exec unshare -n bash -c 'ip link set lo up && ip -4 address delete 127.0.0.1/8 dev lo && "
      "exec ";
  expect_refused(run_under(network, SPARCL_TEST_LINKED " ucx'", {{"UCX_TLS", "tcp"}}),
                 "no network interface that is up has an IPv4 address or a global IPv6 address",
                 "transport ucx needs one with UCX_TLS=tcp", "leave shared memory in UCX_TLS");
  const ProcessRecord record = run_under(network, SPARCL_TEST_LINKED " ucx'");
  EXPECT_TRUE(record.exited_with(0)) << "shared memory needs no network: " << text_of(record);
}

// With a network of its own, in which sp0 is not what UCX would choose by itself.
ProcessRecord run_with_interface(std::vector<std::pair<std::string, std::string>> environment) {
  environment.insert(environment.end(), {{"UCX_TLS", "tcp"}, {"SPARCL_DEBUG", "debug"}});
  return run_under(
      "exec unshare -n -m bash -c 'mount -t sysfs sysfs /sys && ip link set lo up && ip link add "
      "sp0 type veth peer name sp1 && ip address add 10.78.0.1/24 dev sp0 && ip link set sp0 up && "
      "ip link set sp1 up && exec ",
      SPARCL_TEST_LINKED " ucx'", std::move(environment));
}

TEST(Interface, IsWhereUcxSendsData) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  const ProcessRecord record = run_with_interface({{"SPARCL_INTERFACE", "sp0"}});
  EXPECT_TRUE(record.exited_with(0)) << text_of(record);
  EXPECT_THAT(record.errors, HasSubstr("UCX's lanes to rank 0: tcp/sp0"));
  EXPECT_EQ(count(record.errors, "tcp/lo"), 0) << text_of(record);
}

TEST(Interface, YieldsToUcxsOwnSetting) {
  if (!may_mount()) GTEST_SKIP() << kWithoutRoot;
  const ProcessRecord record =
      run_with_interface({{"SPARCL_INTERFACE", "sp0"}, {"UCX_NET_DEVICES", "lo"}});
  EXPECT_TRUE(record.exited_with(0)) << text_of(record);
  EXPECT_THAT(record.errors, HasSubstr("UCX's lanes to rank 0: tcp/lo"));
}
#endif

#if SPARCL_TEST_WITH_TOOLS
TEST(Limits, InfoShowsTheChecks) {
  const ProcessRecord record =
      run_under("ulimit -f 4000; ulimit -n 30; ", "exec " SPARCL_TEST_PROGRAM " info --json");
  ASSERT_TRUE(record.exited_with(0)) << text_of(record);
  ASSERT_EQ(record.lines.size(), 1U);
  const auto json = nlohmann::json::parse(record.lines[0].text);
  std::vector<std::string> wrong;
  for (const auto& check : json.at("checks")) {
    for (const char* key : {"name", "ok", "found", "need", "cure"})
      EXPECT_TRUE(check.contains(key)) << check.dump();
    if (!check.at("ok").get<bool>()) wrong.push_back(check.at("name"));
  }
  EXPECT_EQ(wrong, (std::vector<std::string>{"file_size", "descriptors"}));
  const ProcessRecord text = run_under("ulimit -f 4000; ", "exec " SPARCL_TEST_PROGRAM " info");
  EXPECT_THAT(text_of(text), AllOf(HasSubstr("limits of this machine"),
                                   HasSubstr("file_size      NO"), HasSubstr("shared_memory  ok")));
}
#endif

}  // namespace
}  // namespace sparcl::test
