#include "src/base/memory_size.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.hpp"

namespace sparcl {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(MemorySize, TheMachineHasSome) {
  EXPECT_GT(physical_memory(), 0u);
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LE(available_memory(), physical_memory());
}

TEST(MemorySize, TheTightestGroupDecides) {
  const test::TempFolder folder;
  const std::string proc = folder / "proc", groups = folder / "groups";
  EXPECT_EQ(available_memory(Paging::kNone, proc, groups), UINT64_MAX) << "nothing is known";
  write_text(proc + "/meminfo",
             "MemTotal:  9000 kB\nMemFree:  100 kB\nMemAvailable:    5000 kB\nSwapFree: 70 kB\n");
  EXPECT_EQ(available_memory(Paging::kToSwap, proc, groups), 5070u * 1024);
  EXPECT_EQ(available_memory(Paging::kNone, proc, groups), 5000u * 1024);
  write_text(proc + "/self/cgroup", "1:name=systemd:/x\n0::/job/step\n");
  write_text(groups + "/job/step/memory.max", "max\n");
  write_text(groups + "/job/step/memory.current", "77\n");
  EXPECT_EQ(available_memory(Paging::kNone, proc, groups), 5000u * 1024) << "no limit";
  write_text(groups + "/job/memory.max", "4096000\n");
  write_text(groups + "/job/memory.current", "1096000\n");
  EXPECT_EQ(available_memory(Paging::kNone, proc, groups), 3'000'000u);
  write_text(groups + "/job/memory.current", "5000000\n");
  EXPECT_EQ(available_memory(Paging::kNone, proc, groups), 0u) << "more than the limit is used";
}

}  // namespace
}  // namespace sparcl
