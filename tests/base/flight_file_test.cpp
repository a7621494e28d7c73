#include "src/base/flight/flight_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "src/base/process_info.hpp"

namespace sparcl::flight {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FlightFile : public ::testing::Test {
 protected:
  FlightFile() {
    std::string pattern = (fs::temp_directory_path() / "sparcl-test-flight-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FlightFile() override { fs::remove_all(folder_); }

  std::string path_of(pid_t pid) const {
    return fmt::format("{}/sparcl-flight-{}-{}", folder_, ::geteuid(), pid);
  }
  RecordPath record_of(pid_t pid) const { return {path_of(pid), ::geteuid(), pid}; }

  static FileHead head_of_process(pid_t pid, std::uint64_t start) {
    FileHead head;
    head.magic = kMagic;
    head.layout_version = kLayoutVersion;
    head.pid = pid;
    head.process_start = start;
    head.pid_namespace = own_pid_namespace();
    return head;
  }
  void write(const FileHead& head) const {
    const int file =
        ::open(path_of(static_cast<pid_t>(head.pid)).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_EQ(::write(file, &head, sizeof head), static_cast<ssize_t>(sizeof head));
    ::close(file);
  }
  void write_empty(pid_t pid) const {
    const int file = ::open(path_of(pid).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ASSERT_GE(file, 0);
    ::close(file);
  }
  std::int64_t found_dead(pid_t pid) const {
    const Result<int> file = open_record(record_of(pid));
    FileHead head;
    EXPECT_TRUE(file.ok() && read_head(*file, head) == sizeof head);
    ::close(*file);
    return head.found_dead_ns;
  }
  static pid_t dead_process() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return child;
  }

  std::string folder_;
};

TEST_F(FlightFile, IsTheUsersAlone) {
  const Result<NewFile> file = create_record({folder_});
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->path, path_of(::getpid()));
  struct stat found;
  ASSERT_EQ(::fstat(file->descriptor, &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<std::size_t>(found.st_size), kImageBytes);
  EXPECT_LT(found.st_blocks * 512, 2 * static_cast<blkcnt_t>(kTrailBytes))
      << "memory is taken with the trails";
  ::close(file->descriptor);
}

TEST_F(FlightFile, TheNextFolderIsTakenWhereOneIsOfNoUse) {
  const Result<NewFile> file = create_record({folder_ + "/missing", folder_});
  ASSERT_TRUE(file.ok());
  ::close(file->descriptor);
  const Result<NewFile> none = create_record({folder_ + "/missing", "/proc"});
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.status().message(), HasSubstr("missing/sparcl-flight-"));
}

TEST_F(FlightFile, WhatLiesInTheWayIsLeftAlone) {
  fs::create_symlink(folder_ + "/victim", path_of(::getpid()));
  EXPECT_FALSE(create_record({folder_}).ok());
  EXPECT_FALSE(fs::exists(folder_ + "/victim"));
  fs::remove(path_of(::getpid()));
  write(head_of_process(
      ::getpid(), process_info(::getpid()).start_ticks));  // another rank of this very process
  EXPECT_FALSE(create_record({folder_}).ok());
}

TEST_F(FlightFile, APredecessorWithOurPidGivesWay) {
  write(head_of_process(::getpid(), process_info(::getpid()).start_ticks - 1));
  const Result<NewFile> file = create_record({folder_});
  ASSERT_TRUE(file.ok()) << file.status().message();
  ::close(file->descriptor);
}

TEST_F(FlightFile, OnlyRegularFilesOfTheUserAreRead) {
  const std::string path = path_of(1);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(open_record(record_of(1)).status().code(), Code::kUnauthorized);
  fs::remove(path);
  fs::create_symlink("/etc/hostname", path);
  EXPECT_FALSE(open_record(record_of(1)).ok());
  fs::remove(path);
  write(head_of_process(1, 0));
  ASSERT_EQ(::chmod(path.c_str(), 0620), 0);
  EXPECT_EQ(open_record(record_of(1)).status().code(), Code::kUnauthorized);
  RecordPath others = record_of(1);
  others.user = ::geteuid() + 1;
  EXPECT_FALSE(open_record(others).ok());
}

TEST_F(FlightFile, NamesAreTakenExactly) {
  for (const char* name :
       {"sparcl-flight-0", "sparcl-flight-0-", "sparcl-flight-0-1x", "sparcl-flight--1-5",
        "sparcl-flight-0--5", "sparcl-flight-0-0", "sparcl-flight-0-99999999999999",
        "xsparcl-flight-0-1", "sparcl-flight-99999999999-1"}) {
    const int file = ::open((folder_ + "/" + name).c_str(), O_CREAT | O_WRONLY, 0600);
    ::close(file);
  }
  EXPECT_TRUE(find_records({folder_}).empty());
  write(head_of_process(12, 0));
  write(head_of_process(5, 0));
  const std::vector<RecordPath> records = find_records({folder_, folder_ + "/missing"});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].pid, 5);
  EXPECT_EQ(records[1].path, path_of(12));
  EXPECT_EQ(find_records_of(12, {folder_}).size(), 1u);
}

TEST_F(FlightFile, TheDeadAreKeptUntilTheyTakeTooMuchMemory) {
  constexpr std::int64_t kEnough = 1 << 20;
  const std::int64_t now = wall_ns();
  const pid_t first = dead_process(), second = dead_process(), third = dead_process();
  for (const pid_t dead : {third, first, second}) {  // seen dead in this order
    write(head_of_process(dead, 1));
    EXPECT_EQ(remove_surplus_records(now + (dead == third   ? 0
                                            : dead == first ? 1
                                                            : 2),
                                     {folder_}, kEnough),
              0);
  }
  EXPECT_EQ(found_dead(third), now);
  EXPECT_EQ(found_dead(second), now + 2);
  struct stat found;
  ASSERT_EQ(::stat(path_of(first).c_str(), &found), 0);
  EXPECT_EQ(remove_surplus_records(now + 3, {folder_}, 2 * found.st_blocks * 512), 1);
  EXPECT_FALSE(fs::exists(path_of(third))) << "it has been dead longest";
  EXPECT_EQ(found_dead(first), now + 1);
  EXPECT_EQ(remove_surplus_records(now + 3, {folder_}, 0), 2);
}

TEST_F(FlightFile, AllOfTheDeadAreRemovedAtOnce) {
  const pid_t first = dead_process(), second = dead_process();
  for (const pid_t dead : {first, second}) write(head_of_process(dead, 1));
  write(head_of_process(::getpid(), process_info(::getpid()).start_ticks));
  EXPECT_THAT(remove_dead_records({folder_}), ::testing::UnorderedElementsAre(first, second));
  EXPECT_TRUE(fs::exists(path_of(::getpid())));
  EXPECT_FALSE(remove_if_dead(record_of(::getpid())));
}

// Killed between the creation of the file and its first page, or refused the memory for it.
TEST_F(FlightFile, EmptyOnesOfTheDeadAreRemovedAndThoseOfTheLivingStay) {
  const pid_t dead = dead_process(), unfilled = dead_process();
  for (const pid_t each : {dead, unfilled, ::getpid()}) write_empty(each);
  fs::resize_file(path_of(unfilled), kImageBytes);
  EXPECT_TRUE(is_left_empty(record_of(dead)));
  EXPECT_TRUE(is_left_empty(record_of(unfilled)));
  EXPECT_FALSE(is_left_empty(record_of(::getpid())));
  EXPECT_THAT(remove_dead_records({folder_}), ::testing::UnorderedElementsAre(dead, unfilled));
  EXPECT_TRUE(fs::exists(path_of(::getpid())));
  write_empty(dead);
  EXPECT_EQ(remove_surplus_records(wall_ns(), {folder_}), 1)
      << "nothing is in it that could be looked at";
}

TEST_F(FlightFile, WhoMayLiveIsLeftAlone) {
  const std::uint64_t start = process_info(::getpid()).start_ticks;
  write(head_of_process(::getpid(), start));
  FileHead elsewhere = head_of_process(dead_process(), 1);
  elsewhere.pid_namespace += 1;  // another container that shares the folder
  write(elsewhere);
  FileHead later = head_of_process(dead_process(), 1);
  later.layout_version += 1;
  write(later);
  const std::int64_t now = wall_ns();
  EXPECT_EQ(remove_surplus_records(now, {folder_}, 0), 0);
  EXPECT_TRUE(remove_dead_records({folder_}).empty());
  EXPECT_EQ(found_dead(::getpid()), 0);
}

TEST_F(FlightFile, LifeIsToldFromTheSystem) {
  const ProcessInfo own = process_info(::getpid());
  EXPECT_EQ(life_of(head_of_process(::getpid(), own.start_ticks)), Life::kRunning);
  EXPECT_EQ(life_of(head_of_process(::getpid(), own.start_ticks + 1)), Life::kDead)
      << "a later process with its pid";
  EXPECT_EQ(life_of(head_of_process(dead_process(), 1)), Life::kDead);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::kill(child, SIGSTOP);
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  EXPECT_EQ(life_of(head_of_process(child, process_info(child).start_ticks)), Life::kStopped);
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(life_of(head_of_process(child, process_info(child).start_ticks)), Life::kDead)
      << "a zombie";
  ::waitpid(child, &status, 0);
}

}  // namespace
}  // namespace sparcl::flight
