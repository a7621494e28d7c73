#include "src/model/layout_change.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/bytes.hpp"

namespace sparcl::model {
namespace {

constexpr std::size_t kMaxSpaces =
    256;  // no writer pads more, and hostile padding would cost memory

std::string_view without_padding(std::string_view text) {
  return text.substr(
      0, std::max(text.find_last_not_of(' ') + 1, text.size() - std::min(text.size(), kMaxSpaces)));
}

TextPatch compare_text(std::string_view base, std::string_view target) {
  TextPatch patch;
  patch.spaces = target.size() - without_padding(target).size();
  base = without_padding(base);
  target = without_padding(target);
  const auto shorter = static_cast<std::ptrdiff_t>(std::min(base.size(), target.size()));
  const auto first =
      std::mismatch(base.begin(), base.begin() + shorter, target.begin()).first - base.begin();
  const auto last =
      std::mismatch(base.rbegin(), base.rbegin() + (shorter - first), target.rbegin()).first -
      base.rbegin();
  patch.first = static_cast<std::uint64_t>(first);
  patch.last = static_cast<std::uint64_t>(last);
  patch.text = target.substr(patch.first, target.size() - patch.first - patch.last);
  return patch;
}

bool apply_patch(const TextPatch& patch, std::string_view base, std::string& target) {
  base = without_padding(base);
  if (patch.first > base.size() || patch.last > base.size() - patch.first ||
      patch.spaces > kMaxSpaces)
    return false;
  target = fmt::format("{}{}{}", base.substr(0, patch.first), patch.text,
                       base.substr(base.size() - patch.last));
  target.append(patch.spaces, ' ');
  return true;
}

std::string_view header_at(const Layout& layout, std::size_t file) {
  return file < layout.files.size() ? std::string_view(layout.files[file].header)
                                    : std::string_view();
}

// A hash over each text's hash, so that no bytes can move from one text to the next.
std::uint64_t layout_digest(const Layout& layout) {
  ByteWriter writer;
  const auto put = [&](std::string_view text) {
    writer.write(xxh3_64(std::as_bytes(std::span(text))));
  };
  writer.write(static_cast<std::uint8_t>(layout.is_folder));
  for (const FileLayout& file : layout.files) {
    put(file.name);
    put(file.header);
  }
  put(layout.index_name);
  put(layout.index);
  return xxh3_64(writer.bytes());
}

Metadata::const_iterator find_key(const Metadata& metadata, const std::string& key) {
  return std::find_if(metadata.begin(), metadata.end(),
                      [&](const auto& entry) { return entry.first == key; });
}

MetadataEdits compare_metadata(const Metadata& base, const Metadata& target) {
  MetadataEdits edits;
  for (const auto& [key, value] : base) {
    if (find_key(target, key) == target.end()) edits.removals.push_back(key);
  }
  for (const auto& [key, value] : target) {
    const auto before = find_key(base, key);
    if (before == base.end() || before->second != value) edits.settings.emplace_back(key, value);
  }
  return edits;
}

Metadata edit(const Metadata& base, const MetadataEdits& edits) {
  Metadata out;
  for (const auto& entry : base) {
    const bool removed = std::ranges::find(edits.removals, entry.first) != edits.removals.end();
    if (!removed && find_key(edits.settings, entry.first) == edits.settings.end())
      out.push_back(entry);
  }
  out.insert(out.end(), edits.settings.begin(), edits.settings.end());
  return out;
}

// Fills has_edits and each file's edits if the schemas are equal and the edits few.
Status compare_files(const Layout& base, const Layout& target, LayoutChange& change) {
  if (base.files.size() != target.files.size()) return {};
  change.has_edits = true;
  for (std::size_t i = 0; i < target.files.size(); ++i) {
    const Result<Header> before = parse_header(base.files[i].header);
    const Result<Header> after = parse_header(target.files[i].header);
    if (!before.ok() || !after.ok()) return before.ok() ? after.status() : before.status();
    if (before->metadata.size() > kMaxEdits || after->metadata.size() > kMaxEdits) {
      change.has_edits = false;
    } else {
      change.files[i].edits = compare_metadata(before->metadata, after->metadata);
    }
  }
  return {};
}

// An invalid result is always the fault of the change.
Status check_result(const Layout& layout) {
  const Status status = layout_schema(layout).status();
  return status.ok()
             ? status
             : Status(Code::kCorrupt, "the attached change of the layout: " + status.message());
}

// The base's own files with edited metadata.
Result<ChangedLayout> edit_base(const LayoutChange& change, const Layout& base) {
  ChangedLayout out{base, false};
  for (std::size_t i = 0; i < base.files.size(); ++i) {
    SPARCL_ASSIGN_OR_RETURN(const Header header, parse_header(base.files[i].header));
    out.layout.files[i].header =
        render_header(header.tensors, edit(header.metadata, change.files[i].edits));
  }
  SPARCL_RETURN_IF_ERROR(check_result(out.layout));
  return out;
}

}  // namespace

Result<LayoutChange> compare_layouts(const Layout& base, const Layout& target,
                                     const Hash128& base_hash) {
  SPARCL_ASSIGN_OR_RETURN(const Schema before, layout_schema(base));
  SPARCL_ASSIGN_OR_RETURN(const Schema after, layout_schema(target));

  LayoutChange change;
  change.base_digest = layout_digest(base);
  change.target_digest = layout_digest(target);
  change.is_folder = target.is_folder;
  for (std::size_t i = 0; i < target.files.size(); ++i) {
    change.files.push_back(
        {target.files[i].name, compare_text(header_at(base, i), target.files[i].header), {}});
  }
  change.index_name = target.index_name;
  change.index = compare_text(base.index, target.index);
  if (before == after) {
    SPARCL_RETURN_IF_ERROR(compare_files(base, target, change));
  } else {
    change.base_hash = base_hash;
  }
  return change;
}

Result<ChangedLayout> apply_layout_change(const LayoutChange& change, const Layout& base) {
  if (change.base_digest != layout_digest(base)) {
    if (change.has_edits && change.files.size() == base.files.size())
      return edit_base(change, base);
    return Status(Code::kWrongBase,
                  "the delta rearranges the tensors, and its base has another header than this "
                  "one: apply it to the files that it was made of");
  }
  const Status damaged(Code::kCorrupt,
                       "the attached change of the layout does not fit the base that it is for");
  ChangedLayout out;
  out.layout.is_folder = change.is_folder;
  for (std::size_t i = 0; i < change.files.size(); ++i) {
    FileLayout& file = out.layout.files.emplace_back();
    file.name = change.files[i].name;
    if (!apply_patch(change.files[i].header, header_at(base, i), file.header)) return damaged;
  }
  out.layout.index_name = change.index_name;
  if (!change.index_name.empty() && !apply_patch(change.index, base.index, out.layout.index))
    return damaged;
  SPARCL_RETURN_IF_ERROR(check_result(out.layout));
  if (layout_digest(out.layout) != change.target_digest) return damaged;
  return out;
}

}  // namespace sparcl::model
