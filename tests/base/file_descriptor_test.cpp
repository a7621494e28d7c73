// Memory runs out while a file is opened: no descriptor and no temporary file is lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <new>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/failing_memory.hpp"

namespace sparcl::test {
namespace {

std::ptrdiff_t entries_of(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

// open(): makes it, and lets it go. Fails at each of its allocations, one after the other.
template <class Open>
void expect_nothing_lost(const fs::path& folder, const Open& open) {
  open();
  const std::ptrdiff_t descriptors = entries_of("/proc/self/fd"), files = entries_of(folder);
  long after = 0;
  for (bool has_failed = true; has_failed; ++after) {
    fail_allocation_of_this_thread(after);
    try {
      open();
    } catch (const std::bad_alloc&) {
    }
    has_failed = has_failed_in_this_thread();
    fail_allocation_of_this_thread(-1);
    EXPECT_EQ(entries_of("/proc/self/fd"), descriptors) << "after allocation " << after;
    EXPECT_EQ(entries_of(folder), files) << "after allocation " << after;
  }
  EXPECT_GT(after, 1) << "nothing has failed";
}

TEST(FileDescriptor, AReaderWithoutMemoryLosesNone) {
  const TempFolder folder;
  const std::string path = folder / "a_name_that_needs_memory";
  write_text(path, "text");
  expect_nothing_lost(folder.path(), [&] { (void)FileReader::open(path); });
}

TEST(FileDescriptor, AnOutputWithoutMemoryLosesNone) {
  const TempFolder folder;
  const std::string path = folder / "a_name_that_needs_memory";
  expect_nothing_lost(folder.path(), [&] { (void)AtomicFile::create(path); });
}

}  // namespace
}  // namespace sparcl::test
