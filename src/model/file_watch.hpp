#pragma once
// Callbacks of a long operation on files.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::model {

struct DiffReport;

struct FileWatch {
  // Bytes done in the current phase, and its total. An error ends the operation, and nothing is
  // written.
  std::function<Status(std::uint64_t done_bytes, std::uint64_t total_bytes)> on_progress;
  // Files in the checkpoint's folder that are named like shards but are not in its index.
  std::function<void(const std::vector<std::string>& paths)> on_stray_shards;
  // The contents of a delta, before its file appears. An error ends the operation.
  std::function<Status(const DiffReport& made)> on_diff;

  Status progress(std::uint64_t done_bytes, std::uint64_t total_bytes) const {
    return on_progress ? on_progress(done_bytes, total_bytes) : Status();
  }
  // The same for `total_bytes` in this many equal parts, which may not divide them.
  Status part(std::uint64_t done, std::uint64_t parts, std::uint64_t total_bytes) const {
    return progress(done < parts ? total_bytes / parts * done : total_bytes, total_bytes);
  }
  void stray_shards(const std::vector<std::string>& paths) const {
    if (on_stray_shards && !paths.empty()) on_stray_shards(paths);
  }
};

}  // namespace sparcl::model
