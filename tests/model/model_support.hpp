#pragma once
// Files and folders for the tests of the model layer and of the program.

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "src/model/schema.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::test {

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

inline std::string read_text(const std::string& path) {
  std::ostringstream text;  // by the buffer: a stream's iterators take a call a byte
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

// The bytes of a safetensors file: the length, `json`, and `data`.
inline std::string file_of(std::string_view json, std::string_view data = {}) {
  std::string out(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(out.data(), &length, sizeof length);
  return out.append(json).append(data);
}

// The folder of the real traces: SPARCL_TRACE, or ../shared/data/trace beside the repository; ""
// where there is none.
inline std::string trace_folder() {
  if (const char* given = std::getenv("SPARCL_TRACE"); given != nullptr)
    return fs::exists(given) ? given : "";
  const fs::path beside = test::tree() / "../shared/data/trace";
  return fs::exists(beside) ? fs::canonical(beside).string() : "";
}

constexpr std::string_view kNoTrace =
    "no trace: neither SPARCL_TRACE nor ../shared/data/trace beside the repository";

inline std::vector<std::string> sorted_files(const fs::path& folder,
                                             std::string_view suffix = ".safetensors") {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(suffix)) out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Tensors with bytes of their own.
struct Tensors {
  model::Schema schema;
  std::vector<std::vector<std::byte>> bytes;

  std::vector<const std::byte*> pointers() const {
    static constexpr std::byte kEmpty{};  // an empty tensor has an address, too
    std::vector<const std::byte*> out;
    for (const auto& tensor : bytes) out.push_back(tensor.empty() ? &kEmpty : tensor.data());
    return out;
  }
};

inline void add_tensor(Tensors& tensors, std::string name, DataType type,
                       std::vector<std::uint64_t> shape, std::uint64_t seed) {
  tensors.schema.push_back({std::move(name), type, std::move(shape)});
  std::vector<std::byte> bytes(*model::element_count(tensors.schema.back()) * element_bytes(type));
  std::mt19937_64 random(seed);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  tensors.bytes.push_back(std::move(bytes));
}

}  // namespace sparcl::test
