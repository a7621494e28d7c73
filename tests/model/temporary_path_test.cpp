#include "src/model/temporary_path.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/model/model_support.hpp"

namespace sparcl::test {
namespace {

namespace fs = std::filesystem;
using model::TemporaryPath;

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

void begin_file(const std::string& path) { (void)new std::optional(TemporaryPath::create_file(path, 0644)); }
void begin_folder(const std::string& path) {
  std::error_code error;
  (void)new std::optional(TemporaryPath::create_folder(path, error));
}

TEST(TemporaryPath, WhatAKilledProcessHasLeftIsRemoved) {
  const TempFolder folder;
  const std::string out = folder / "model.safetensors", other = folder / "other";
  die_after([&] { begin_file(out); });
  die_after([&] { begin_folder(out); });
  die_after([&] { begin_file(other); });
  ASSERT_EQ(folder.count(), 3U);
  EXPECT_EQ(model::remove_leftovers(out), 2);
  EXPECT_EQ(folder.count(), 1U);  // another file's stays
  EXPECT_EQ(model::remove_leftovers(other), 1);
  EXPECT_EQ(folder.count(), 0U);
}

TEST(TemporaryPath, WhatIsStillWrittenStays) {
  const TempFolder folder;
  const std::string out = folder / "model";
  {
    std::error_code error;
    const std::optional<TemporaryPath::File> file = TemporaryPath::create_file(out, 0644);
    const std::optional<TemporaryPath> made = TemporaryPath::create_folder(out, error);
    ASSERT_TRUE(file && made);
    EXPECT_EQ(model::remove_leftovers(out), 0);
    // As if a process that has the same disk had them: of an id that this machine does not know, and locked.
    const fs::path elsewhere = folder / ".model.sparcl-2147483646-0";
    fs::rename(file->path.path(), elsewhere);
    EXPECT_EQ(model::remove_leftovers(out), 0);
    EXPECT_TRUE(fs::exists(elsewhere));
    ::close(file->fd);
    EXPECT_EQ(model::remove_leftovers(out), 1);
    EXPECT_FALSE(fs::exists(elsewhere));
  }
  EXPECT_EQ(folder.count(), 0U);
}

TEST(TemporaryPath, OthersFilesAreNoLeftovers) {
  const TempFolder folder;
  for (const char* name :
       {".model.sparcl-x-0", ".model.sparcl-", ".model.sparcl-0-0", "model.sparcl-2147483646-0", ".model.2147483646"})
    std::ofstream(folder / name) << "mine";
  EXPECT_EQ(model::remove_leftovers(folder / "model"), 0);
  EXPECT_EQ(folder.count(), 5U);
  EXPECT_EQ(model::remove_leftovers(folder / "no/such/folder"), 0);
}

}  // namespace
}  // namespace sparcl::test
