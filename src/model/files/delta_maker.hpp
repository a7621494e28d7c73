#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/block_mode.hpp"
#include "src/model/checkpoint_source.hpp"
#include "src/model/files/change_selection.hpp"
#include "src/model/files/delta_sink.hpp"
#include "src/model/files/held_state.hpp"
#include "src/model/files/tensor_match.hpp"

namespace sparcl::model {

// The modes that `mode` below may name: not those for tensors without a base, compositions or
// codes.
std::vector<const codec::BlockMode*> forceable_modes();

struct DiffOptions {
  const codec::BlockMode* mode = nullptr;  // as in codec::EncodeOptions
  bool with_side_files = true;
  bool with_identities = false;  // of base and target; exact deltas only
  unsigned threads = 0;          // for encoding; 0: the setting
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  ChangeSelection selection = {};
};

struct DiffReport {
  std::uint64_t elements = 0;  // of the target
  std::uint64_t changed = 0;   // all elements of tensors without a base count as changed
  std::uint64_t bytes = 0;     // of the delta file
  std::uint64_t dense_bytes = 0;
  Hash128 base_hash;
  Hash128 target_hash;
  TensorChanges tensors;
  std::vector<std::string> side_files;  // side files in the delta
  std::vector<std::string> skipped;     // side files that are too large for the delta
  codec::LossyError lossy;              // of --values
  codec::LeftOut left_out;              // by the selection
  std::vector<std::string>
      stray_shards;  // paths of files beside the shards that belong to neither checkpoint

  bool is_partial() const { return left_out.count > 0; }
};

// A checkpoint in its files: tensors are read when they are needed.
struct OpenCheckpoint {
  StateView view() const {
    return {checkpoint->layout(), checkpoint->schema(), tensors, side_files, source.get()};
  }

  std::unique_ptr<const Checkpoint> checkpoint;
  std::unique_ptr<const CheckpointSource> source;  // of it
  std::vector<const std::byte*> tensors;           // none is in memory
  std::vector<SideFile> side_files;
};
Result<OpenCheckpoint> open_checkpoint(const std::string& path, bool with_side_files = true,
                                       std::vector<std::string>* skipped = nullptr);

// Writes the update from `base` to `target` to `sink`. bytes of the report: those of the stream.
Result<DiffReport> encode_delta(const StateView& base, const StateView& target,
                                const DiffOptions& options, DeltaSink& sink,
                                const FileWatch& watch = {});

// Writes the delta from `base` to `target` to delta_path, completely or not at all.
Result<DiffReport> write_delta(const StateView& base, const StateView& target,
                               const std::string& delta_path, const DiffOptions& options = {},
                               const FileWatch& watch = {});

// The same for the checkpoints at base_path and target_path.
Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path,
                              const std::string& delta_path, const DiffOptions& options = {},
                              const FileWatch& watch = {});

}  // namespace sparcl::model
