// Composes consecutive changes of a layout. A patch refers to its base by "the first n bytes" and
// "the last n". Two patches compose into one patch in two cases. The second stays inside the text
// that the first wrote, or it reaches beyond that text on one side only.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "src/model/layout_change.hpp"

namespace sparcl::model {
namespace {

std::optional<TextPatch> compose(const TextPatch& first, const TextPatch& second) {
  const std::uint64_t written = first.text.size();
  if (second.first > first.first + written || second.last > written + first.last)
    return std::nullopt;
  const std::uint64_t head =
      second.first - std::min(second.first, first.first);  // of the first's text, kept before ...
  const std::uint64_t tail =
      second.last - std::min(second.last, first.last);  // ... and after what the second writes
  if (head + tail > written) return std::nullopt;
  TextPatch patch;
  patch.first = std::min(first.first, second.first);
  patch.last = std::min(first.last, second.last);
  patch.spaces = second.spaces;
  patch.text = first.text.substr(0, head) + second.text + first.text.substr(written - tail);
  return patch;
}

// A file that the layout between did not have is written from nothing.
TextPatch patch_of_nothing(const TextPatch& second) { return {0, 0, second.spaces, second.text}; }

void drop(Metadata& settings, const std::string& key) {
  std::erase_if(settings, [&](const auto& entry) { return entry.first == key; });
}

MetadataEdits compose(const MetadataEdits& first, const MetadataEdits& second) {
  MetadataEdits edits = first;
  for (const std::string& key : second.removals) {
    drop(edits.settings, key);
    if (std::ranges::find(edits.removals, key) == edits.removals.end())
      edits.removals.push_back(key);
  }
  for (const auto& [key, value] : second.settings) {
    drop(edits.settings, key);
    edits.settings.emplace_back(key, value);
  }
  return edits;
}

Status needs_base(std::string_view why) {
  return Status(Code::kUnsupported,
                fmt::format("{}: that can be composed with the base only", why));
}

}  // namespace

Result<LayoutChange> compose_layout_changes(const LayoutChange& first, const LayoutChange& second) {
  if (first.target_digest != second.base_digest) {
    return Status(Code::kWrongBase,
                  "the headers or metadata that the second was made of are not those that the "
                  "first leads to");
  }
  if (first.base_hash || second.base_hash) return needs_base("the list of tensors changes");
  LayoutChange change = second;
  change.base_digest = first.base_digest;
  change.has_edits =
      first.has_edits && second.has_edits && first.files.size() == second.files.size();
  const char* kApart = "headers or metadata change at places that lie apart";
  for (std::size_t i = 0; i < change.files.size(); ++i) {
    FileChange& file = change.files[i];
    const bool is_new = i >= first.files.size();
    const std::optional<TextPatch> patch =
        is_new ? patch_of_nothing(file.header) : compose(first.files[i].header, file.header);
    if (!patch) return needs_base(kApart);
    file.header = *patch;
    file.edits = change.has_edits ? compose(first.files[i].edits, file.edits) : MetadataEdits{};
    if (file.edits.removals.size() > kMaxEdits || file.edits.settings.size() > kMaxEdits)
      change.has_edits = false;
  }
  if (change.index_name.empty()) return change;
  const std::optional<TextPatch> index = first.index_name.empty()
                                             ? patch_of_nothing(second.index)
                                             : compose(first.index, second.index);
  if (!index) return needs_base("the index changes at places that lie apart");
  change.index = *index;
  return change;
}

}  // namespace sparcl::model
