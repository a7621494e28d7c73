#pragma once
// A delta file (docs/reference/delta-file.md): one update stream of the codec whose attachment, if
// any, is an Attachment.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/base/staging.hpp"
#include "src/base/status.hpp"
#include "src/codec/update.hpp"
#include "src/model/attachment.hpp"
#include "src/model/file_watch.hpp"

namespace sparcl::model {

struct Delta {
  std::string path;  // for messages
  Staging staging;
  std::uint64_t bytes = 0;
};

Result<Delta> read_delta(const std::string& path, const FileWatch& watch = {});

// True for a folder, and for a file that looks like safetensors. Its header begins with '{', or its
// name ends in .safetensors and it does not begin like a delta. Every other file counts as a delta,
// damaged or not.
Result<bool> is_checkpoint(const std::string& path);

// True for a file that begins like a stream, damaged or not.
Result<bool> is_delta(const std::string& path);

// An error that names the confusion if `path` is a delta.
Status expect_checkpoint(const std::string& path);

struct Tally {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;    // of the contents
  std::uint64_t changes = 0;  // only blocks of sparse modes
};

struct DeltaSummary {
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  Hash128 schema_hash;
  std::uint64_t elements = 0;
  std::uint32_t arrays = 0;
  std::optional<Hash128> base_hash;  // absent if tensors have no base
  std::optional<Hash128> target_hash;
  Attachment attachment;
  std::uint64_t attachment_bytes = 0;
  std::array<Tally, 16> blocks;  // by mode
  std::uint64_t block_count = 0;
  std::uint64_t chunk_count = 0;
  std::uint64_t coded_elements = 0;
  std::uint64_t changed = 0;
  std::optional<codec::LeftOut> left_out;  // by a selection of changes: the result is not the
                                           // checkpoint that the delta was made for

  // The hash of the whole base: from the stream, or from the attachment if the list of tensors
  // changes.
  const Hash128* whole_base_hash() const;
};

// Checks everything of a damaged or hostile delta that needs no base: every byte's CRC32C, the
// order and lengths of sections, totals, the attachment. (The contents of blocks are checked when
// they are applied to their base.)
Result<DeltaSummary> scan_delta(const Delta& delta, const FileWatch& watch = {});

// The kernels that SPARCL_KERNELS names.
Result<const kernels::KernelSet*> chosen_kernels();

}  // namespace sparcl::model
