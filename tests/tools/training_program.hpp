#pragma once
// What tests of `sparcl publish` and `sparcl subscribe` share: a training that writes checkpoints,
// and the two command lines.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/background_program.hpp"

namespace sparcl::test {

// Checkpoints in a folder: 1.safetensors, 2.safetensors, ..., each a little different from the one
// before.
class Training {
 public:
  Training() { fs::create_directory(folder_ / "watched"); }

  std::string path(int step) const { return fmt::format("{}/{}.safetensors", watched(), step); }
  std::string watched() const { return folder_ / "watched"; }
  std::string operator/(std::string_view name) const { return folder_ / name; }

  // As a program that renames what it has finished does.
  void write(int step) {
    if (step > 1) change(tensors_, 0.01, static_cast<std::uint64_t>(step));
    write_model(folder_ / "unfinished", tensors_, {{"writer", "a training"}});
    fs::rename(folder_ / "unfinished", path(step));
  }
  std::vector<std::string> write_up_to(int steps) {
    std::vector<std::string> paths;
    for (int step = 1; step <= steps; ++step) {
      write(step);
      paths.push_back(path(step));
    }
    return paths;
  }

 private:
  TempFolder folder_;
  Tensors tensors_ = small_model();
};

inline std::vector<std::string> publish(std::vector<std::string> more,
                                        const std::string& listen = "127.0.0.1:0") {
  more.insert(more.begin(), {"publish", "--listen", listen});
  return more;
}

inline std::vector<std::string> subscribe(const std::string& address, const std::string& output,
                                          std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"subscribe", address, "--out", output});
  return more;
}

}  // namespace sparcl::test
