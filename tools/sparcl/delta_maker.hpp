#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_mode.hpp"
#include "tools/sparcl/change_selection.hpp"
#include "tools/sparcl/held_state.hpp"
#include "tools/sparcl/tensor_match.hpp"

namespace sparcl::tool {

struct DiffOptions {
  const codec::BlockMode* mode = nullptr;  // as in codec::EncodeOptions
  bool with_side_files = true;
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  ChangeSelection selection = {};
};

struct DiffReport {
  std::uint64_t elements = 0;  // of the target
  std::uint64_t changed = 0;   // elements of tensors without a base are all changed
  std::uint64_t bytes = 0;     // of the delta file
  std::uint64_t dense_bytes = 0;
  Hash128 base_hash;
  Hash128 target_hash;
  TensorChanges tensors;
  std::vector<std::string> side_files;  // that travel
  std::vector<std::string> skipped;     // side files that are too large to travel
  codec::LossyError lossy;              // of --values
};

// A checkpoint as its files have it.
struct OpenCheckpoint {
  model::Checkpoint checkpoint;
  std::vector<model::SideFile> side_files;

  StateView view() const { return {checkpoint.layout(), checkpoint.schema(), checkpoint.pointers(), side_files}; }
};
Result<OpenCheckpoint> open_checkpoint(const std::string& path, bool with_side_files = true,
                                       std::vector<std::string>* skipped = nullptr);

// Writes what turns `base` into `target` to delta_path, whole or not at all.
Result<DiffReport> write_delta(const StateView& base, const StateView& target, const std::string& delta_path,
                               const DiffOptions& options = {});

// The same for the checkpoints at base_path and target_path.
Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path, const std::string& delta_path,
                              const DiffOptions& options = {});

}  // namespace sparcl::tool
