#pragma once
// Environment variables for a library that reads them when it is loaded. The process's own
// environment is not changed.

#include <span>
#include <vector>

namespace sparcl::transport {

// Adds variables while the object lives. A variable that the user has set keeps its value. Readers
// in other threads see the environment with or without the additions, and never freed memory. A
// change by another thread in that time stays.
class EnvironmentOverlay {
 public:
  // Each addition is "NAME=value" and must live as long as the process.
  explicit EnvironmentOverlay(std::span<const char* const> additions);
  ~EnvironmentOverlay();
  EnvironmentOverlay(const EnvironmentOverlay&) = delete;
  EnvironmentOverlay& operator=(const EnvironmentOverlay&) = delete;

 private:
  std::span<const char* const> additions_;
  char** before_ = nullptr;
  char** during_ = nullptr;
  std::vector<char*> put_;  // its first contents
};

}  // namespace sparcl::transport
