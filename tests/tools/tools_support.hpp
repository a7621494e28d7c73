#pragma once
// Checkpoints that change, and the program as a child process.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::test {

struct ProgramRun {
  int exit_code = -1;  // -1: killed
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

// Arguments without single quotes. `before` goes before the program: "SPARCL_X=y ".
inline ProgramRun run_program(const std::vector<std::string>& arguments,
                              const std::string& before = "") {
  const TempFolder folder;
  // Without what only the tests know: the program warns of settings that it does not.
  std::string line = "unset SPARCL_TRACE SPARCL_TEST_LONG; " + before + "'" SPARCL_PROGRAM "'";
  for (const std::string& argument : arguments) line += fmt::format(" '{}'", argument);
  line += fmt::format(" >{0}/out 2>{0}/err </dev/null", folder.path().string());
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(folder / "out"),
          read_text(folder / "err")};
}

// About `density` of the elements get other bytes.
inline void change(Tensors& tensors, double density, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution hit(density);
  for (std::size_t i = 0; i < tensors.bytes.size(); ++i) {
    const std::size_t width = element_bytes(tensors.schema[i].datatype);
    for (std::size_t at = 0; at < tensors.bytes[i].size(); at += width) {
      if (hit(random)) tensors.bytes[i][at] ^= static_cast<std::byte>(1 + random() % 255);
    }
  }
}

// Blocks of several types, blocks of small tensors, a scalar, an empty one.
inline Tensors small_model(std::uint64_t seed = 1) {
  Tensors tensors;
  add_tensor(tensors, "embed", DataType::kBfloat16, {280, 250}, seed);
  add_tensor(tensors, "norm", DataType::kBfloat16, {400}, seed + 1);
  add_tensor(tensors, "head", DataType::kFloat32, {100, 70}, seed + 2);
  add_tensor(tensors, "steps", DataType::kInt64, {}, seed + 3);
  add_tensor(tensors, "mask", DataType::kBool, {64}, seed + 4);
  add_tensor(tensors, "empty", DataType::kFloat16, {0, 3}, seed + 5);
  add_tensor(tensors, "scale", DataType::kFloat8e4m3, {1000}, seed + 6);
  return tensors;
}

inline void write_model(const std::string& path, const Tensors& tensors,
                        const model::Metadata& metadata = {}) {
  const Status status =
      model::write_safetensors(path, tensors.schema, tensors.pointers(), metadata);
  ASSERT_TRUE(status.ok()) << status.message();
}

// Shards with an index, `per_shard` tensors each.
inline void write_shards(const std::string& path, const Tensors& tensors, std::size_t per_shard,
                         const model::Metadata& metadata = {}) {
  model::Layout layout;
  layout.is_folder = true;
  nlohmann::json map;
  for (std::size_t first = 0; first < tensors.schema.size(); first += per_shard) {
    const std::size_t end = std::min(first + per_shard, tensors.schema.size());
    const model::Schema schema(tensors.schema.begin() + static_cast<std::ptrdiff_t>(first),
                               tensors.schema.begin() + static_cast<std::ptrdiff_t>(end));
    const std::string name = fmt::format("model-{:05}.safetensors", first / per_shard + 1);
    layout.files.push_back({name, model::render_header(schema, metadata)});
    for (const model::TensorSchema& tensor : schema) map[tensor.name] = name;
  }
  layout.index_name = "model.safetensors.index.json";
  layout.index = nlohmann::json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump(2);
  const Status status = model::write_checkpoint(path, layout, tensors.pointers());
  ASSERT_TRUE(status.ok()) << status.message();
}

// Both files, or both folders with the same files of the same bytes.
inline void expect_same(const std::string& a, const std::string& b) {
  if (!fs::is_directory(a)) {
    EXPECT_TRUE(!fs::is_directory(b) && read_text(a) == read_text(b)) << a << " differs from " << b;
    return;
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(a))
    names.push_back(entry.path().filename().string());
  for (const std::string& name : names)
    EXPECT_EQ(read_text(a + "/" + name), read_text(b + "/" + name)) << name;
  EXPECT_EQ(static_cast<std::ptrdiff_t>(names.size()),
            std::distance(fs::directory_iterator(b), fs::directory_iterator()));
}

// A small model, a changed one, and their delta, in a folder of their own.
class DiffedModels : public ::testing::Test {
 protected:
  void SetUp() override {
    Tensors target = base_;
    change(target, 0.01, 3);
    write_model(at("base"), base_);
    write_model(at("target"), target);
    ASSERT_EQ(run_program({"diff", at("base"), at("target"), "-o", at("delta")}).exit_code, 0);
  }
  std::string at(std::string_view name) const { return folder_ / name; }

  const Tensors base_ = small_model();
  TempFolder folder_;
};

}  // namespace sparcl::test
