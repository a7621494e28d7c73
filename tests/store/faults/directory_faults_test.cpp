// Stores in folders whose file system fails at any call, or is shared by NFS: the error names the
// file, the committed version stays, and a repeated publish succeeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "src/base/error_text.hpp"
#include "tests/store/chain_support.hpp"
#include "tests/store/faults/faulty_calls.hpp"

namespace sparcl::store {
namespace {

using test::Fault;
using test::FileCall;
using ::testing::AllOf;
using ::testing::HasSubstr;

class DirectoryFaults : public ChainOfVersions {
 protected:
  ~DirectoryFaults() override { test::set_faults("", {}); }
  std::string root() const { return folder.path().string() + "/store"; }

  // A reader that begins now gets one of the two contents, whole; says which.
  bool reads_new(const std::vector<std::byte>& old, std::uint64_t version) {
    Chain reader(*store);
    const auto newest = reader.newest();
    EXPECT_TRUE(newest.ok()) << newest.status().message();
    if (!newest.ok() || !*newest) {
      EXPECT_TRUE(old.empty()) << "a version was there";
      return false;
    }
    HeldTensors held(kTensors);
    const auto steps = steps_to(reader, **newest, {});
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    const Status restored = restore(reader, **newest, *steps, std::nullopt, state_of(held));
    EXPECT_TRUE(restored.ok()) << restored.message();
    const bool is_new = (*newest)->version == version;
    EXPECT_TRUE(content(held) == (is_new ? content(trained) : old));
    return is_new;
  }

  // Publishes with the fault. False: no call met it.
  bool survives(ChainWriter& by, std::uint64_t version, const Fault& fault) {
    const std::vector<std::byte> old = version > 1 ? content(trained) : std::vector<std::byte>();
    trained.change(version, 500);
    test::set_faults(root(), {fault});
    const Status status = by.publish(version);
    by.finish();
    const bool is_met = test::met_faults() > 0;
    test::set_faults("", {});
    if (status.ok()) {
      EXPECT_TRUE(reads_new(old, version));
      return is_met;
    }
    EXPECT_TRUE(is_met);
    EXPECT_EQ(status.code(), Code::kSystemError);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(root()), HasSubstr(error_text(fault.error))));
    const bool has_bytes = fault.call == FileCall::kWrite || fault.call == FileCall::kSyncFile;
    EXPECT_THAT(std::string(status.message()), HasSubstr(has_bytes ? " bytes " : "/"));
    (void)reads_new(old, version);
    const Status again = by.publish(version);
    EXPECT_TRUE(again.ok()) << again.message();
    EXPECT_TRUE(reads_new(old, version));
    return is_met;
  }
};

const Fault kFailures[] = {
    {FileCall::kWrite, ENOSPC},     {FileCall::kWrite, EIO},      {FileCall::kSyncFile, EIO},
    {FileCall::kSyncFolder, EIO},   {FileCall::kCreate, ENOSPC},  {FileCall::kCreate, EIO},
    {FileCall::kLink, EIO},         {FileCall::kLink, ENOSPC},    {FileCall::kRename, EIO},
    {FileCall::kRename, ESTALE},    {FileCall::kLink, ESTALE},    {FileCall::kMakeFolder, ENOSPC},
    {FileCall::kMakeFolder, EROFS}, {FileCall::kSyncFile, ENOSPC}};

// Every such call of a publish fails, one after the other.
TEST_F(DirectoryFaults, EveryCallOfAPublishMayFail) {
  const auto by = writer(*store);
  publish(*by, 1);
  std::uint64_t version = 1;
  int met = 0;
  for (Fault fault : kFailures) {
    for (fault.skip = 0; survives(*by, ++version, fault); ++fault.skip) ++met;
    ASSERT_FALSE(HasFailure()) << static_cast<int>(fault.call) << " " << fault.error;
  }
  EXPECT_GT(met, 12 * 3) << "a delta, a record and the number of the newest one at least";
}

// The record is there, but its name may be gone after a crash: that is no success.
TEST_F(DirectoryFaults, ARecordWhoseNameIsNotOnTheDiskIsNotPublished) {
  const auto by = writer(*store);
  publish(*by, 1);
  trained.change(2, 500);
  test::set_faults(root(), {{FileCall::kSyncFolder, EIO, "/commits/", 0, 3}});
  for (int tries = 0; tries < 3; ++tries)
    EXPECT_EQ(by->publish(2).code(), Code::kSystemError) << tries;
  const Status again = by->publish(2);
  EXPECT_TRUE(again.ok()) << again.message();
  EXPECT_TRUE(reads_new(contents.back(), 2));
}

TEST_F(DirectoryFaults, EveryCallOfTheFirstPublishMayFail) {
  int met = 0;
  for (Fault fault : kFailures) {
    for (fault.skip = 0;; ++fault.skip) {
      std::filesystem::remove_all(root());
      store = open();
      const auto by = writer(*store);
      if (!survives(*by, 1, fault)) break;
      ++met;
    }
    ASSERT_FALSE(HasFailure()) << static_cast<int>(fault.call) << " " << fault.error;
  }
  EXPECT_GT(met, 12 * 4);
}

TEST_F(DirectoryFaults, AReaderNamesWhatCannotBeRead) {
  publish_all(6);
  const VersionRecord newest = **chain.newest();
  int met = 0;
  for (Fault fault :
       {Fault{FileCall::kRead, EIO}, Fault{FileCall::kOpen, EIO}, Fault{FileCall::kOpen, EACCES},
        Fault{FileCall::kOpen, ESTALE, "", 0, 1000}, Fault{FileCall::kRead, ESTALE, "", 0, 1000}}) {
    for (fault.skip = 0;; ++fault.skip) {
      HeldTensors held(kTensors);
      held.change(99, 1);
      const std::vector<std::byte> before = content(held);
      test::set_faults(root(), {fault});
      const Status status = bring(held, newest);
      const bool is_met = test::met_faults() > 0;
      test::set_faults("", {});
      if (!is_met) break;
      ++met;
      ASSERT_EQ(status.code(), Code::kSystemError) << status.message();
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(root()), HasSubstr(error_text(fault.error))));
      EXPECT_TRUE(content(held) == before);
      ASSERT_TRUE(bring(held, newest).ok());
      EXPECT_TRUE(content(held) == contents.back());
    }
  }
  EXPECT_GT(met, 10);
}

TEST_F(DirectoryFaults, AStaleHandleIsOpenedAgain) {
  publish_all(6);
  const VersionRecord newest = **chain.newest();
  for (const FileCall call : {FileCall::kOpen, FileCall::kRead, FileCall::kExamine}) {
    for (int skip = 0; skip < 20; ++skip) {
      test::set_faults(root(), {{call, ESTALE, "", skip, 3}});
      HeldTensors held(kTensors);
      const Status status = bring(held, newest);
      ASSERT_TRUE(status.ok()) << skip << ": " << status.message();
      EXPECT_TRUE(content(held) == contents.back());
    }
  }
  const auto by = writer(*store);
  test::set_faults(root(), {{FileCall::kCreate, ESTALE, "", 0, 3}});
  publish(*by, 100);
  EXPECT_EQ(test::met_faults(), 3);
}

// A server's answer is lost: the client asks again, and is told of its own work.
TEST_F(DirectoryFaults, RepeatedRepliesAreRecognised) {
  std::uint64_t version = 0;
  for (const Fault& fault : {Fault{FileCall::kLink, EEXIST, "", 0, 1000, true},
                             Fault{FileCall::kLink, EIO, "", 0, 1000, true},
                             Fault{FileCall::kRename, ENOENT, "", 0, 1000, true},
                             Fault{FileCall::kCreate, EEXIST, "", 0, 3, true},
                             Fault{FileCall::kMakeFolder, EEXIST, "", 0, 1000, true},
                             Fault{FileCall::kRemove, ENOENT, "", 0, 1000, true}}) {
    if (fault.call == FileCall::kMakeFolder) {
      std::filesystem::remove_all(root());
      store = open();
      version = 0;
    }
    const auto by = writer(*store);
    const std::vector<std::byte> old = content(trained);
    for (int i = 0; i < 5; ++i) {
      trained.change(++version + 100, 500);
      test::set_faults(root(), {fault});
      const Status status = by->publish(version);
      by->finish();
      test::set_faults("", {});
      ASSERT_TRUE(status.ok()) << static_cast<int>(fault.call) << ": " << status.message();
      EXPECT_TRUE(reads_new(old, version));
    }
  }
}

// A writer's link that had no effect is none of its own.
TEST_F(DirectoryFaults, AnotherWritersObjectIsNoRepeatedReply) {
  const auto one = writer(*store), two = writer(*store);
  publish(*one, 1);
  // The second one does not see the record of the first: its look-up is stale.
  test::set_faults(root(), {{FileCall::kOpen, ENOENT, "/commits/", 0, 2}});
  EXPECT_EQ(two->publish(2).code(), Code::kStale);
}

TEST_F(DirectoryFaults, NewNamesAreSeenOnceTheFolderIsAsked) {
  const auto by = writer(*store);
  publish(*by, 1);
  Chain reader(*store);
  ASSERT_EQ((*reader.newest())->version, 1U);
  trained.change(2, 500);
  publish(*by, 2);
  // As the client of NFS remembers that the names were not there.
  const Fault stale{FileCall::kOpen, ENOENT, "0002", 0, 1000, false, true};
  const Fault stale_too{FileCall::kExamine, ENOENT, "0002", 0, 1000, false, true};
  test::set_faults(root(), {stale, stale_too});
  EXPECT_EQ((*reader.newest())->version, 2U);
  test::set_faults(root(), {stale, stale_too});
  HeldTensors held(kTensors);
  const VersionRecord newest = **reader.newest();
  const auto steps = steps_to(reader, newest, {});
  test::set_faults(root(), {stale, stale_too});
  const Status restored = restore(reader, newest, *steps, std::nullopt, state_of(held));
  EXPECT_TRUE(restored.ok()) << restored.message();
  EXPECT_TRUE(content(held) == contents.back());
}

// Names that stay unseen for a while: the reader is late, and says what it misses.
TEST_F(DirectoryFaults, NamesThatStayUnseenMakeAReaderLate) {
  const auto by = writer(*store);
  publish(*by, 1);
  Chain reader(*store);
  ASSERT_EQ((*reader.newest())->version, 1U);
  trained.change(2, 500);
  publish(*by, 2);
  test::set_faults(root(), {{FileCall::kOpen, ENOENT, "commits/00000000000000000002", 0, 1000}});
  const auto late = reader.newest();
  ASSERT_TRUE(late.ok()) << late.status().message();
  EXPECT_EQ((*late)->version, 1U);
  test::set_faults(root(), {{FileCall::kOpen, ENOENT, "deltas/", 0, 1000}});
  const VersionRecord newest = **reader.newest();
  EXPECT_EQ(newest.version, 2U);
  HeldTensors held(kTensors);
  set_to(held, 0);
  const auto steps = steps_to(reader, newest, {.held = versions[0]});
  const Status missing = restore(reader, newest, *steps, versions[0], state_of(held));
  EXPECT_EQ(missing.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr(root() + "/deltas/"), HasSubstr("missing")));
  EXPECT_TRUE(content(held) == contents.front());
  test::set_faults("", {});
  ASSERT_TRUE(restore(reader, newest, *steps, versions[0], state_of(held)).ok());
  EXPECT_TRUE(content(held) == contents.back());
}

TEST_F(DirectoryFaults, OldAttributesAreAskedForAgain) {
  const std::string text = "a longer one";
  const auto put = [&](std::size_t count) {
    const auto bytes = std::as_bytes(std::span(text)).first(count);
    ASSERT_TRUE(store->replace("newest", {&bytes, 1}).ok());
  };
  put(1);
  test::set_faults(root(), {});
  test::remember_attributes(root() + "/newest");
  put(text.size());
  EXPECT_EQ((*store->look("newest"))->bytes, text.size());
  test::remember_attributes(root() + "/newest");
  put(2);
  EXPECT_EQ((*store->read_all("newest", 100))->size(), 2U);
}

// ---- a file system that is full ----

bool write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file.good();
}

// In a namespace of its own, so that no right is needed. Empty: done.
std::string mount_small(const std::string& at, const char* options) {
  const uid_t user = ::getuid();
  const gid_t group = ::getgid();
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "unshare: " + error_text(errno);
  if (!write_text("/proc/self/setgroups", "deny") ||
      !write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") ||
      !write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1"))
    return "no user can be mapped";
  if (::mount("tmpfs", at.c_str(), "tmpfs", 0, options) != 0)
    return "mount of a tmpfs: " + error_text(errno);
  return {};
}

constexpr int kSkips = 77;

TEST_F(DirectoryFaults, AFullFileSystemKeepsTheCommittedVersion) {
  std::filesystem::create_directory(root());
  std::fflush(stdout);  // the child prints, too
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (const std::string why = mount_small(root(), "size=1m"); !why.empty()) {
      std::printf("%s\n", why.c_str());
      std::fflush(stdout);
      ::_exit(kSkips);
    }
    store = open();
    const auto by = writer(*store);
    // Pruning writes its marks first, so it needs a little room.
    const std::string spare = root() + "/.spare";
    int full = 0;
    for (std::uint64_t version = 1; version < 200 && full < 3; ++version) {
      const std::vector<std::byte> old = version > 1 ? content(trained) : std::vector<std::byte>();
      trained.change(version, 20'000);
      if (!std::filesystem::exists(spare)) {
        EXPECT_TRUE(write_text(spare, std::string(50'000, 'x')));
      }
      const Status status = by->publish(version);
      by->finish();
      if (status.ok()) continue;
      ++full;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(root()), HasSubstr(" bytes "), HasSubstr(error_text(ENOSPC))));
      EXPECT_FALSE(reads_new(old, version));
      std::filesystem::remove(spare);
      Chain pruned(*store);
      EXPECT_TRUE(prune(pruned, {.versions = 1, .lease_s = 0}).ok());
      const Status again = by->publish(version);
      EXPECT_TRUE(again.ok()) << again.message();
      EXPECT_TRUE(reads_new(old, version));
    }
    EXPECT_EQ(full, 3);
    std::fflush(stdout);
    ::_exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kSkips) GTEST_SKIP() << "no file system of its own: see above";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace sparcl::store
