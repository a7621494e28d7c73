#include "src/base/files/temporary_path.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "src/base/files/atomic_file.hpp"
#include "src/base/process_info.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::test {
namespace {

namespace fs = std::filesystem;

// Killed in the midst of it, as a -9 does.
template <class Begin>
void die_after(const Begin& begin) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    begin();
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

void begin_file(const std::string& path) {
  (void)new std::optional(TemporaryPath::create_file(path, 0644));
}
void begin_folder(const std::string& path) {
  std::error_code error;
  (void)new std::optional(TemporaryPath::create_folder(path, error));
}

TEST(TemporaryPath, WhatAKilledProcessHasLeftIsRemoved) {
  const TempFolder folder;
  const std::string out = folder / "model.safetensors", other = folder / "other";
  die_after([&] { begin_file(out); });
  die_after([&] { begin_file(other); });
  ASSERT_EQ(folder.count(), 2U);
  EXPECT_EQ(remove_leftovers(out), 1);
  EXPECT_EQ(folder.count(), 1U);  // another file's stays
  EXPECT_EQ(remove_leftovers(other), 1);
  EXPECT_EQ(folder.count(), 0U);
}

// The next one that begins the same output, whoever it is: no command has to ask for it.
TEST(TemporaryPath, TheNextOfTheSameOutputRemovesWhatWasLeft) {
  const TempFolder folder;
  const std::string out = folder / "model", long_name = folder / std::string(255, 'n');
  for (const std::string& path : {out, long_name}) {
    die_after([&] { begin_file(path); });
    die_after([&] { begin_folder(path); });
    EXPECT_EQ(folder.count(), 1U) << "the folder has taken the file's place";
    Result<AtomicFile> file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(folder.count(), 1U) << "the file, unfinished";
    ASSERT_TRUE(file->commit().ok());
    EXPECT_TRUE(fs::is_regular_file(path));
    fs::remove(path);
  }
  EXPECT_EQ(folder.count(), 0U);
}

// Ids are used again: what an older process has left is not this one's, which has its id now.
TEST(TemporaryPath, WhatIsOlderThanTheProcessOfItsIdIsALeftover) {
  const TempFolder folder;
  const std::string left = folder / fmt::format(".model.sparcl-{}-0", ::getpid());
  std::ofstream(left) << "half";
  EXPECT_EQ(remove_leftovers(folder / "model"), 0) << "it may be this process's";
  struct stat about;
  ASSERT_EQ(::stat(left.c_str(), &about), 0);
  ProcessInfo later = process_info(::getpid());
  ASSERT_TRUE(later.may_have_changed(about));
  later.start_ticks += static_cast<std::uint64_t>(10 * ::sysconf(_SC_CLK_TCK));
  about.st_ctim.tv_sec -= 3600;
  EXPECT_FALSE(later.may_have_changed(about));
}

TEST(TemporaryPath, WhatIsStillWrittenStays) {
  const TempFolder folder;
  const std::string out = folder / "model";
  {
    std::error_code error;
    const std::optional<TemporaryPath::File> file = TemporaryPath::create_file(out, 0644);
    const std::optional<TemporaryPath> made = TemporaryPath::create_folder(out, error);
    ASSERT_TRUE(file && made);
    EXPECT_EQ(remove_leftovers(out), 0);
    // As if a process that has the same disk had them: of an id that this machine does not know,
    // and locked.
    const fs::path elsewhere = folder / ".model.sparcl-2147483646-0";
    fs::rename(file->path.path(), elsewhere);
    EXPECT_EQ(remove_leftovers(out), 0);
    EXPECT_TRUE(fs::exists(elsewhere));
    ::close(file->fd);
    EXPECT_EQ(remove_leftovers(out), 1);
    EXPECT_FALSE(fs::exists(elsewhere));
  }
  EXPECT_EQ(folder.count(), 0U);
}

// A folder that took the place of the new one, when a kill came between the exchange and the moving
// back of what users keep in it.
TEST(TemporaryPath, AFolderWithAUsersFoldersIsNoLeftover) {
  const TempFolder folder;
  const std::string out = folder / "model";
  die_after([&] {
    begin_folder(out);
    for (const auto& each : fs::directory_iterator(folder.path()))
      fs::create_directory(each.path() / "runs");
  });
  EXPECT_EQ(remove_leftovers(out), 0);
  die_after([&] {
    fs::create_directory((new TemporaryPath(TemporaryPath::beside(out, "old-")))->path());
  });
  EXPECT_EQ(remove_leftovers(out), 0) << "all that was there, where a file system cannot exchange";
  EXPECT_EQ(folder.count(), 2U);
}

TEST(TemporaryPath, OthersFilesAreNoLeftovers) {
  const TempFolder folder;
  for (const char* name : {".model.sparcl-x-0", ".model.sparcl-", ".model.sparcl-0-0",
                           "model.sparcl-2147483646-0", ".model.2147483646"})
    std::ofstream(folder / name) << "mine";
  EXPECT_EQ(remove_leftovers(folder / "model"), 0);
  EXPECT_EQ(folder.count(), 5U);
  fs::create_symlink(".model.2147483646", folder.path() / ".model.sparcl-2147483646-1");
  EXPECT_EQ(remove_leftovers(folder / "model"), 0) << "a link";
  ASSERT_EQ(::mkfifo((folder / ".model.sparcl-2147483646-2").c_str(), 0600), 0);
  EXPECT_EQ(remove_leftovers(folder / "model"), 1) << "a pipe, at which nobody waits";
  EXPECT_EQ(remove_leftovers(folder / "no/such/folder"), 0);
}

}  // namespace
}  // namespace sparcl::test
