#pragma once
// The change from a base's layout to the target's. It is in an update's attachment if the layouts
// differ (docs/reference/delta-file.md has the bytes).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/model/file_layout.hpp"

namespace sparcl::model {

struct TextPatch {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::uint64_t spaces = 0;
  std::string text;
};

// The most edits of a file. They only help if another program rewrote the base, and hostile ones
// would cost time.
constexpr std::size_t kMaxEdits = 1024;

struct MetadataEdits {
  std::vector<std::string> removals;
  Metadata settings;
};

struct FileChange {
  std::string name;
  TextPatch header;
  MetadataEdits edits;
};

struct LayoutChange {
  std::uint64_t base_digest = 0;
  std::uint64_t target_digest = 0;
  std::optional<Hash128>
      base_hash;  // if the schemas differ: an update then has no hash of the whole base
  bool is_folder = false;
  bool has_edits = false;  // only if the schemas are equal
  std::vector<FileChange> files;
  std::string index_name;
  TextPatch index;
};

// Both layouts must be valid. base_hash: the base's state hash, used if the schemas differ.
Result<LayoutChange> compare_layouts(const Layout& base, const Layout& target,
                                     const Hash128& base_hash);

// Composes two consecutive changes, without the texts between. WrongBase if the second is not of
// the first's target. Unsupported if the base's texts would be needed: tensors come or go, or the
// two edit separate positions.
Result<LayoutChange> compose_layout_changes(const LayoutChange& first, const LayoutChange& second);

std::vector<std::byte> serialise(const LayoutChange& change);

// For untrusted bytes. max_entries: files and edits together. Each takes more memory than it has
// bytes, so more are Corrupt.
Result<LayoutChange> parse_layout_change(std::span<const std::byte> bytes,
                                         std::uint64_t max_entries = UINT64_MAX);

struct ChangedLayout {
  Layout layout;
  // False: another program rewrote the base. Its layout with the target's metadata replaces the
  // target's.
  bool exact = true;
};

// A layout that can be written, also for a hostile change. WrongBase if the list of tensors changes
// and `base` is not, byte for byte, the base of the change.
Result<ChangedLayout> apply_layout_change(const LayoutChange& change, const Layout& base);

}  // namespace sparcl::model
