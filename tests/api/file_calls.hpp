#pragma once
// Checkpoints that change, and the calls of file.h on them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sparcl/file.h"

namespace sparcl::test {

namespace fs = std::filesystem;

constexpr std::size_t kElements = 70'000;

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_content(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Two tensors; a hundred elements of the first one differ between two steps.
inline std::string checkpoint(int step, const char* second = "norm") {
  std::string header = R"({"weights":{"dtype":"F32","shape":[70000],"data_offsets":[0,280000]},")" +
                       std::string(second) +
                       R"(":{"dtype":"BF16","shape":[64],"data_offsets":[280000,280128]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  for (std::size_t i = 0; i < kElements; ++i) {
    const float value =
        static_cast<float>(i % 1000) + (i % 700 == 7 ? 0.5F * static_cast<float>(step) : 0);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes + std::string(128, '\x3f');
}

// What a call tells, and what it is answered.
struct Told {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> progress;
  std::map<sparclFileNoteKind_t, std::vector<std::string>> names;
  sparclResult_t answer = sparclSuccess;
  std::size_t answer_from = 1;  // this look at the progress; before: sparclSuccess
};

template <class Options>
void listen(Options& options, Told& told) {
  options.arg = &told;
  options.on_progress = [](std::uint64_t done, std::uint64_t total, void* arg) {
    auto& own = *static_cast<Told*>(arg);
    own.progress.emplace_back(done, total);
    return own.progress.size() < own.answer_from ? sparclSuccess : own.answer;
  };
  options.on_note = [](sparclFileNoteKind_t kind, const char* name, void* arg) {
    static_cast<Told*>(arg)->names[kind].emplace_back(name);
  };
}

class FileCalls : public ::testing::Test {
 protected:
  FileCalls() {
    std::string name = (fs::temp_directory_path() / "sparcl_file_api_XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
    for (int step = 0; step < 3; ++step)
      write_content(at("s" + std::to_string(step)), checkpoint(step));
  }
  ~FileCalls() override {
    std::error_code ignored;
    fs::permissions(folder_, fs::perms::owner_all, ignored);
    fs::remove_all(folder_, ignored);
  }

  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  sparclResult_t diff(const std::string& base, const std::string& target, const std::string& output,
                      const sparclFileDiffOptions_t* options = nullptr,
                      sparclFileReport_t* report = nullptr) const {
    return sparclFileDiff(at(base).c_str(), at(target).c_str(), at(output).c_str(), options,
                          report);
  }
  sparclResult_t apply(const std::string& base, const std::string& delta, const std::string& output,
                       sparclFileReport_t* report = nullptr) const {
    return sparclFileApply(at(base).c_str(), at(delta).c_str(), at(output).c_str(), nullptr,
                           report);
  }
  // The same by the program, to a file of its own.
  std::string by_program(const std::string& command) const {
#ifdef SPARCL_PROGRAM
    const std::string line =
        "cd '" + folder_ + "' && '" SPARCL_PROGRAM "' " + command + " >/dev/null";
    EXPECT_EQ(std::system(line.c_str()), 0) << line;
    return content_of(at("by_program"));
#else
    (void)command;
    return {};
#endif
  }
  void expect_as_program(const std::string& file, const std::string& command) const {
#ifdef SPARCL_PROGRAM
    EXPECT_EQ(content_of(at(file)), by_program(command + " -o by_program")) << command;
#endif
    (void)file, (void)command;
  }
  // No temporary file is in the folder: ".NAME.sparcl-PID-N".
  void expect_no_temporary() const {
    for (const auto& entry : fs::directory_iterator(folder_))
      EXPECT_THAT(entry.path().filename().string(), testing::Not(testing::HasSubstr(".sparcl-")));
  }
  void expect_no_output(const std::string& name) const {
    EXPECT_FALSE(fs::exists(at(name)));
    expect_no_temporary();
  }

  std::string folder_;
};

}  // namespace sparcl::test
