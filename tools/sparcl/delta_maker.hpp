#pragma once

#include <cstdint>
#include <string>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_mode.hpp"
#include "tools/sparcl/tensor_match.hpp"

namespace sparcl::tool {

struct DiffReport {
  std::uint64_t elements = 0;  // of the target
  std::uint64_t changed = 0;   // elements of tensors without a base are all changed
  std::uint64_t bytes = 0;     // of the delta file
  std::uint64_t dense_bytes = 0;
  Hash128 base_hash;
  Hash128 target_hash;
  TensorChanges tensors;
};

// Writes what turns the checkpoint at base_path into that at target_path to delta_path, whole or not at all. mode: as in
// codec::EncodeOptions.
Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path, const std::string& delta_path,
                              const codec::BlockMode* mode = nullptr);

}  // namespace sparcl::tool
