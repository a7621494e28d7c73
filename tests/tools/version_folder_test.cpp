// Which folders are versions, and the order of their names.
#include "tools/sparcl/version_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

struct FolderCase {
  const char* name;
  std::vector<const char*> files;
  const char* marker;  // nullptr: it is no version
  bool is_change = false;
};

TEST(VersionFolder, IsAVersionOnceItsMarkerIsThere) {
  constexpr const char* kIndex = "model.safetensors.index.json";
  const std::vector<FolderCase> cases{
      {"any", {kIndex}, kIndex},
      {"any", {"model.safetensors", "config.json"}, "model.safetensors"},
      {"any", {"model.safetensors"}, nullptr},
      {"logs", {"events.txt"}, nullptr},
      {"weight_v000004", {kIndex}, kIndex},
      {"weight_v000004", {"a.safetensors", "DONE"}, "DONE", true},
      {"weight_v000004", {"a.safetensors"}, nullptr},
      {"step_4", {kIndex}, nullptr},
      {"step_4", {kIndex, "STABLE"}, "STABLE"},
      {"checkpoint-4", {"model.safetensors", "trainer_state.json"}, "trainer_state.json"},
      {"checkpoint-4", {"a.safetensors", "READY"}, "READY", true},
      {"checkpoint-4", {"a.safetensors"}, nullptr},
      {"delta-00000004", {"manifest.json"}, "manifest.json", true},
      {"delta-00000004", {"a.safetensors"}, nullptr}};
  for (const FolderCase& one : cases) {
    const TempFolder folder;
    const std::string path = folder / one.name;
    fs::create_directory(path);
    for (const char* file : one.files) write_text(path + "/" + file, "{\"weight_map\": {}}");
    const std::optional<tool::VersionFolder> found = tool::find_version_folder(path);
    ASSERT_EQ(found.has_value(), one.marker != nullptr) << one.name << " " << one.files.back();
    if (!found) continue;
    EXPECT_EQ(found->marker, path + "/" + one.marker);
    EXPECT_EQ(found->content, path);
    EXPECT_EQ(found->is_change, one.is_change) << one.name << " " << one.marker;
  }
}

TEST(VersionFolder, AReadyCheckpointOfGrailIsInItsFullFolder) {
  const TempFolder folder;
  fs::create_directories(folder / "checkpoint-100/FULL");
  write_text(folder / "checkpoint-100/READY-130", "");
  const auto found = tool::find_version_folder(folder / "checkpoint-100");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->content, folder / "checkpoint-100/FULL");
  EXPECT_FALSE(found->is_change);
}

TEST(VersionFolder, NumbersInNamesAreOrderedByValue) {
  std::vector<std::string> names{"step_10", "step_9",  "step_009", "step_100", "a",
                                 "step_",   "step_9a", "b2/1",     "b10/1"};
  std::ranges::sort(names, tool::NumberOrder());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b2/1", "b10/1", "step_", "step_009", "step_9",
                                             "step_9a", "step_10", "step_100"}));
  EXPECT_EQ(tool::number_in_name("x7/step_000012.safetensors"), 12u);
  EXPECT_EQ(tool::number_in_name("x7/step"), std::nullopt);
  EXPECT_EQ(tool::number_in_name("step_99999999999999999999999"), std::nullopt);
}

}  // namespace
}  // namespace sparcl::test
