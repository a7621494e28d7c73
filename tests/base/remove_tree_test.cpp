#include "src/base/remove_tree.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "src/base/folder_list.hpp"

namespace sparcl {
namespace {

namespace fs = std::filesystem;

class RemoveTree : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "tree" / "inner" / "deep");
    fs::create_directories(folder_ / "outside");
    for (const char* name : {"tree/a", "tree/inner/b", "tree/inner/deep/c", "outside/kept"})
      std::ofstream(folder_ / name) << name;
    fs::create_symlink(folder_ / "outside", folder_ / "tree" / "link");
    fs::create_symlink("nowhere", folder_ / "tree" / "dangling");
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path tree() const { return folder_ / "tree"; }
  bool is_outside_kept() const { return fs::exists(folder_ / "outside" / "kept"); }

  const fs::path folder_ =
      fs::temp_directory_path() / ("remove_tree_test_" + std::to_string(::getpid()));
};

TEST_F(RemoveTree, RemovesAFolderAndNotWhatItsLinksLeadTo) {
  EXPECT_TRUE(remove_tree(tree().c_str()));
  EXPECT_FALSE(fs::exists(fs::symlink_status(tree())));
  EXPECT_TRUE(is_outside_kept());
}

TEST_F(RemoveTree, RemovesFoldersOfManyNames) {
  for (int i = 0; i < 500; ++i)
    std::ofstream(tree() / ("a_name_that_fills_the_buffer_soon_" + std::to_string(i)));
  EXPECT_TRUE(remove_tree(tree().c_str()));
  EXPECT_FALSE(fs::exists(tree()));
}

TEST_F(RemoveTree, RemovesFilesAndLinksByThemselves) {
  EXPECT_TRUE(remove_tree((tree() / "a").c_str()));
  EXPECT_TRUE(remove_tree((tree() / "link").c_str()));
  EXPECT_TRUE(remove_tree((tree() / "not there").c_str()));
  EXPECT_FALSE(fs::exists(tree() / "a"));
  EXPECT_TRUE(is_outside_kept());
}

// After an exchange of two folders the descriptor is the finished one's.
TEST_F(RemoveTree, EmptiesNoOtherFolderWhoseDescriptorItWasGiven) {
  const int other = ::open((folder_ / "outside").c_str(), O_RDONLY | O_DIRECTORY);
  EXPECT_TRUE(remove_tree(tree().c_str(), other));
  ::close(other);
  EXPECT_TRUE(is_outside_kept());
  EXPECT_FALSE(fs::exists(tree()));
}

TEST_F(RemoveTree, ListsNamesInOrder) {
  const Result<std::vector<std::string>> names = names_in_folder(tree().string());
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(*names, (std::vector<std::string>{"a", "dangling", "inner", "link"}));
  const Result<std::vector<std::string>> none = names_in_folder((tree() / "a").string());
  EXPECT_EQ(none.status().code(), Code::kSystemError);
  EXPECT_NE(none.status().message().find("cannot be listed"), std::string::npos)
      << none.status().message();
}

}  // namespace
}  // namespace sparcl
