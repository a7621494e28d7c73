// LayoutChange to bytes and back (docs/reference/delta-file.md).
#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/model/layout_change.hpp"
#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint8_t kChangeVersion = 2;
constexpr std::uint8_t kFolder = 1;
constexpr std::uint8_t kIndex = 2;
constexpr std::uint8_t kEdits = 4;
constexpr std::uint8_t kBaseHash = 8;

void put(ByteWriter& writer, std::string_view text) {
  writer.write_varint(text.size());
  writer.write_bytes(std::as_bytes(std::span(text)));
}

void put(ByteWriter& writer, const TextPatch& patch) {
  writer.write_varint(patch.first);
  writer.write_varint(patch.last);
  writer.write_varint(patch.spaces);
  put(writer, patch.text);
}

void put(ByteWriter& writer, const MetadataEdits& edits) {
  writer.write_varint(edits.removals.size());
  for (const std::string& key : edits.removals) put(writer, key);
  writer.write_varint(edits.settings.size());
  for (const auto& [key, value] : edits.settings) {
    put(writer, key);
    put(writer, value);
  }
}

bool get(ByteReader& reader, std::string& text) {
  std::uint64_t length = 0;
  std::span<const std::byte> bytes;
  if (!reader.read_varint(length) || !reader.read_bytes(length, bytes)) return false;
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return is_utf8(text);
}

bool get(ByteReader& reader, TextPatch& patch) {
  std::uint64_t length = 0;
  std::span<const std::byte> bytes;
  if (!reader.read_varint(patch.first) || !reader.read_varint(patch.last) ||
      !reader.read_varint(patch.spaces))
    return false;
  if (!reader.read_varint(length) || !reader.read_bytes(length, bytes)) return false;
  patch.text.assign(reinterpret_cast<const char*>(bytes.data()),
                    bytes.size());  // may cut a character in two
  return true;
}

// left: entries that may come.
bool take(std::uint64_t count, std::uint64_t& left) {
  if (count > left) return false;
  left -= count;
  return true;
}

bool get(ByteReader& reader, std::uint64_t& left, MetadataEdits& edits) {
  std::uint64_t count = 0;
  if (!reader.read_varint(count) || count > kMaxEdits || !take(count, left)) return false;
  for (; count > 0; --count) {
    if (!get(reader, edits.removals.emplace_back())) return false;
  }
  if (!reader.read_varint(count) || count > kMaxEdits || !take(count, left)) return false;
  for (; count > 0; --count) {
    auto& [key, value] = edits.settings.emplace_back();
    if (!get(reader, key) || !get(reader, value)) return false;
  }
  return true;
}

bool read_change(ByteReader& reader, std::uint64_t left, LayoutChange& change) {
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  std::uint64_t file_count = 0;
  if (!reader.read(version) || version != kChangeVersion) return false;
  if (!reader.read(flags) || flags > (kFolder | kIndex | kEdits | kBaseHash) ||
      !reader.read(change.base_digest))
    return false;
  if (!reader.read(change.target_digest)) return false;
  change.is_folder = (flags & kFolder) != 0;
  change.has_edits = (flags & kEdits) != 0;
  if ((flags & kBaseHash) != 0) {
    Hash128& hash = change.base_hash.emplace();
    if (!reader.read(hash.low) || !reader.read(hash.high)) return false;
  }
  if (!reader.read_varint(file_count) || file_count > reader.remaining() || !take(file_count, left))
    return false;
  for (std::uint64_t i = 0; i < file_count; ++i) {
    FileChange& file = change.files.emplace_back();
    if ((change.is_folder && !get(reader, file.name)) || !get(reader, file.header)) return false;
  }
  if ((flags & kIndex) != 0 &&
      (!get(reader, change.index_name) || change.index_name.empty() || !get(reader, change.index)))
    return false;
  for (std::uint64_t i = 0; change.has_edits && i < file_count; ++i) {
    if (!get(reader, left, change.files[i].edits)) return false;
  }
  return reader.remaining() == 0;
}

}  // namespace

std::vector<std::byte> serialise(const LayoutChange& change) {
  ByteWriter writer;
  writer.write(kChangeVersion);
  writer.write(static_cast<std::uint8_t>(
      (change.is_folder ? kFolder : 0) | (change.index_name.empty() ? 0 : kIndex) |
      (change.has_edits ? kEdits : 0) | (change.base_hash ? kBaseHash : 0)));
  writer.write(change.base_digest);
  writer.write(change.target_digest);
  if (change.base_hash) {
    writer.write(change.base_hash->low);
    writer.write(change.base_hash->high);
  }
  writer.write_varint(change.files.size());
  for (const FileChange& file : change.files) {
    if (change.is_folder) put(writer, file.name);
    put(writer, file.header);
  }
  if (!change.index_name.empty()) {
    put(writer, change.index_name);
    put(writer, change.index);
  }
  for (const FileChange& file : change.files) {
    if (change.has_edits) put(writer, file.edits);
  }
  return writer.take();
}

Result<LayoutChange> parse_layout_change(std::span<const std::byte> bytes,
                                         std::uint64_t max_entries) {
  ByteReader reader(bytes);
  LayoutChange change;
  if (read_change(reader, max_entries, change)) return change;
  return Status(
      Code::kCorrupt,
      fmt::format(
          "the attached change of the layout is damaged at its byte {}, or of a later version",
          reader.position()));
}

}  // namespace sparcl::model
