#include "collectives/table/collective_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/aggregate/aggregation.hpp"
#include "collectives/broadcast/dense_choice.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/dense/dense.hpp"
#include "collectives/sparse_sum/sparse_sum.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::collectives {
namespace {

namespace fs = std::filesystem;

// The files of the library and the programs that have the text, once for each time.
std::vector<std::string> files_with(const std::string& text) {
  std::vector<std::string> found;
  const fs::path root = test::tree();
  for (const char* folder : {"src", "collectives", "kernels", "tools", "cmake"}) {
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      std::ostringstream content;
      content << std::ifstream(entry.path()).rdbuf();
      const std::string all = content.str();
      for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
        found.push_back(fs::relative(entry.path(), root).string());
    }
  }
  return found;
}

// Adding an algorithm touches its file and its row: no text, setting or program names it.
TEST(CollectiveTable, TheNameOfAnAlgorithmStandsInItsRowAlone) {
  const std::pair<const comm::AlgorithmChoice*, const char*> tables[] = {
      {&broadcast::kFanoutAlgorithms, "FanoutRow{"},
      {&dense::kDenseAlgorithms, "DenseRow{"},
      {&sparse_sum::kSparseSumAlgorithms, "SparseSumRow{"},
      {&aggregate::kAggregateAlgorithms, "RouteRow{"}};
  for (const auto& [choice, row] : tables) {
    ASSERT_FALSE(choice->names().empty());
    for (const std::string_view name : choice->names()) {
      if (name == broadcast::kNcclFanoutName || name == broadcast::kDenseName) continue;  // no rows
      const std::string quoted = '"' + std::string(name) + '"';
      std::vector<std::string> expected = files_with(row + quoted);
      EXPECT_EQ(expected.size(), 1U) << name;
      // Other things may have the name: a mode of the codec, a stage, a kernel.
      std::vector<std::string> found = files_with(quoted);
      std::erase_if(found, [](const std::string& file) {
        return file.starts_with("kernels/") || file.starts_with("src/codec/");
      });
      for (const std::string& file : files_with("StageRange range(" + quoted))
        std::erase(found, file);
      EXPECT_EQ(found, expected) << name;
    }
  }
}

// The names of the public calls stand in their descriptors; texts and records take them from there.
TEST(CollectiveTable, ADescriptorNamesItsCollective) {
  for (const comm::CollectiveDescriptor* each : collective_table()) {
    EXPECT_EQ(comm::find_collective(collective_table(), static_cast<std::uint32_t>(each->kind)),
              each);
    EXPECT_TRUE(each->name.starts_with("sparcl")) << each->name;
    if (each->choice == nullptr) continue;      // it has one algorithm
    for (unsigned row = 0; row < 256; ++row) {  // any number may come over the wire
      EXPECT_FALSE(each->algorithm(static_cast<std::uint8_t>(row)).empty()) << each->name;
      EXPECT_FALSE(each->choice(static_cast<std::uint8_t>(row)).setting.empty()) << each->name;
    }
  }
  EXPECT_EQ(comm::find_collective(collective_table(), 0), nullptr);
  EXPECT_EQ(comm::find_collective(collective_table(), UINT32_MAX), nullptr);
}

TEST(CollectiveTable, SettingsAcceptTheNamesOfTheRows) {
  for (const SettingRow& row : algorithm_settings()) {
    const std::string variable = "SPARCL_" + std::string(row.name);
    std::string choices(row.choices);
    std::vector<std::string> names;
    std::istringstream stream(choices);
    for (std::string name; std::getline(stream, name, '|');) names.push_back(name);
    EXPECT_EQ(names.front(), "auto");
    EXPECT_GE(names.size(), 3U);
    for (const std::string& name : names) {
      setenv(variable.c_str(), name.c_str(), 1);
      EXPECT_TRUE(check_setting(row).ok()) << name;
    }
    setenv(variable.c_str(), "no_such_algorithm", 1);
    EXPECT_EQ(check_setting(row).code(), Code::kInvalidArgument);
    unsetenv(variable.c_str());
  }
}

}  // namespace
}  // namespace sparcl::collectives
