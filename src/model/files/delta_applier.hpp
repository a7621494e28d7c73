#pragma once

#include <cstdint>
#include <string>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/file_watch.hpp"
#include "src/model/files/delta_file.hpp"

namespace sparcl::model {

struct ApplyReport {
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t bytes = 0;  // of all tensors written
  Hash128 base_hash;
  Hash128 target_hash;
  bool exact = true;  // false: the tensors are the target's, but another program rewrote the base's
                      // header since the diff
};

// Corrupt: the paths are not those of a checkpoint and a delta, in this order.
Status check_order(const std::string& base_path, const std::string& delta_path);

// Writes the delta's target to out_path (a file, or a folder if the target is one), completely or
// not at all, after every check has passed. The checks are CRCs and structure of the delta, and the
// state hashes of the base before and of the result after. out_path may be base_path. Refusals:
// Corrupt, WrongBase.
Result<ApplyReport> apply_delta(const std::string& base_path, const Delta& delta,
                                const std::string& out_path, const FileWatch& watch = {});

}  // namespace sparcl::model
