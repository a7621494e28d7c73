#include "src/model/temporary_path.hpp"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::mutex mutex;
  std::set<std::string> paths;
};

Registry& registry() {
  static auto* one = new Registry;  // never destroyed: a thread may still use it while the process ends
  return *one;
}

void forget(const std::string& path) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path);
}

}  // namespace

TemporaryPath::TemporaryPath(std::string path) : path_(std::move(path)) {
  const std::lock_guard lock(registry().mutex);
  registry().paths.insert(path_);
}

TemporaryPath TemporaryPath::beside(const std::string& path) {
  static std::atomic<unsigned> serial{0};
  const fs::path whole(path);
  return TemporaryPath(whole.parent_path() / fmt::format(".{}.sparcl-{}-{}", whole.filename().string(), ::getpid(), serial++));
}

TemporaryPath::TemporaryPath(TemporaryPath&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryPath& TemporaryPath::operator=(TemporaryPath&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryPath::~TemporaryPath() {
  if (path_.empty()) return;
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  forget(path_);
}

void TemporaryPath::release() { forget(std::exchange(path_, {})); }

void TemporaryPath::hide() const { forget(path_); }

void TemporaryPath::take(std::string path) {
  release();
  path_ = std::move(path);
}

void remove_temporary_paths() {
  const std::lock_guard lock(registry().mutex);
  for (const std::string& path : registry().paths) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
}

}  // namespace sparcl::model
