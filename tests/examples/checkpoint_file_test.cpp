#include "examples/replicate_training/checkpoint_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace training {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CheckpointFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Reads the file by the format's rules alone.
  template <class T>
  void expect_well_formed(const std::filesystem::path& path, const std::string& dtype,
                          std::span<const T> flat) {
    const std::string bytes = bytes_of(path);
    ASSERT_GE(bytes.size(), 8U);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    ASSERT_LE(length, bytes.size() - 8);
    EXPECT_EQ(length % 8, 0U);
    const auto header = nlohmann::json::parse(bytes.substr(8, length));
    EXPECT_EQ(header.at("__metadata__").at("step"), "4");
    EXPECT_EQ(header.size(), layout_.tensors().size() + 1);
    std::size_t end = 0;
    for (const TensorPlace& tensor : layout_.tensors()) {
      const auto& entry = header.at(tensor.name);
      EXPECT_EQ(entry.at("dtype"), dtype);
      EXPECT_EQ(entry.at("shape").get<std::vector<std::uint64_t>>(), tensor.shape);
      EXPECT_EQ(entry.at("data_offsets")[0], end) << "a gap before " << tensor.name;
      end += tensor.count * sizeof(T);
      EXPECT_EQ(entry.at("data_offsets")[1], end);
    }
    ASSERT_EQ(bytes.size(), 8 + length + end);
    EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, flat.data(), end), 0);
  }

  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      ("sparcl_checkpoint_file_" + std::to_string(::getpid()));  // tests run beside each other
  ParameterLayout layout_{ModelShape{5, 32, 1, 1, 4}};
};

TEST_F(CheckpointFile, IsWellFormedInBf16) {
  std::vector<sparcl::bfloat16> flat(layout_.count());
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i].bits = static_cast<std::uint16_t>(i);
  write_checkpoint(folder_ / "weights.safetensors", layout_, flat, {{"step", "4"}});
  expect_well_formed<sparcl::bfloat16>(folder_ / "weights.safetensors", "BF16", flat);
}

TEST_F(CheckpointFile, IsWellFormedInFloat) {
  std::vector<float> flat(layout_.count());
  for (std::size_t i = 0; i < flat.size(); ++i) flat[i] = static_cast<float>(i);
  write_checkpoint(folder_ / "gradients.safetensors", layout_, flat, {{"step", "4"}});
  expect_well_formed<float>(folder_ / "gradients.safetensors", "F32", flat);
}

TEST_F(CheckpointFile, LeavesNothingUnfinished) {
  const std::vector<float> flat(layout_.count());
  write_checkpoint(folder_ / "once.safetensors", layout_, flat, {});
  write_checkpoint(folder_ / "once.safetensors", layout_, flat, {});  // replaces
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, 1U);
}

TEST_F(CheckpointFile, SaysWhatItCannotWrite) {
  std::filesystem::create_directories(
      folder_ / "taken.safetensors.part");  // a folder where the file should be
  EXPECT_THROW(write_checkpoint(folder_ / "taken.safetensors", layout_,
                                std::vector<float>(layout_.count()), {}),
               std::runtime_error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "taken.safetensors"));
}

}  // namespace
}  // namespace training
