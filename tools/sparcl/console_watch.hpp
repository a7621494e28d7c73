#pragma once

#include <memory>
#include <string>

#include "src/model/file_watch.hpp"
#include "tools/sparcl/progress.hpp"
#include "tools/sparcl/stray_shards.hpp"

namespace sparcl::tool {

// Shows the progress of `what`, and warns of stray shards.
inline model::FileWatch console_watch(const std::string& what) {
  model::FileWatch watch;
  watch.on_progress = [progress = std::make_shared<Progress>(what)](std::uint64_t done_bytes,
                                                                    std::uint64_t total_bytes) {
    progress->update(done_bytes, total_bytes);
    return Status();
  };
  watch.on_stray_shards = warn_of_strays;
  return watch;
}

}  // namespace sparcl::tool
