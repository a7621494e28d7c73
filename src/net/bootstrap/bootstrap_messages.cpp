#include "src/net/bootstrap/bootstrap_messages.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/bytes.hpp"

namespace sparcl::net {
namespace {

Status damaged(const char* what) {
  return Status(
      Code::kCorrupt,
      fmt::format(
          "a message of the bootstrap ({}) is damaged: the ranks may run different versions",
          what));
}

// Bytes from outside go into logs: control characters are removed.
std::string printable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const char c = static_cast<char>(byte);
    text += static_cast<unsigned char>(c) >= 0x20 && c != 0x7f ? c : '?';
  }
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text, std::size_t most) {
  return std::as_bytes(std::span(text)).first(std::min(text.size(), most));
}

}  // namespace

std::string Join::who() const { return fmt::format("rank {} (host {}, pid {})", rank, host, pid); }

std::vector<std::byte> encode_join(const Join& join) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(join.nranks));
  out.write(static_cast<std::uint32_t>(join.rank));
  out.write(join.pid);
  out.write(join.patience_ms);
  const auto host = bytes_of(join.host, kMaxHostBytes);
  out.write(static_cast<std::uint8_t>(host.size()));
  out.write_bytes(host);
  out.write_bytes(join.blob);
  return out.take();
}

Result<Join> decode_join(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::uint32_t nranks = 0, rank = 0;
  std::uint8_t host_bytes = 0;
  std::span<const std::byte> host, blob;
  Join join;
  const bool whole = reader.read(nranks) && reader.read(rank) && reader.read(join.pid) &&
                     reader.read(join.patience_ms) && reader.read(host_bytes) &&
                     reader.read_bytes(host_bytes, host) &&
                     reader.read_bytes(reader.remaining(), blob);
  if (!whole || nranks == 0 || nranks > kMaxRanks || rank >= nranks || blob.size() > kMaxBlobBytes)
    return damaged("join");
  join.nranks = static_cast<int>(nranks);
  join.rank = static_cast<int>(rank);
  join.host = printable(host);
  join.blob.assign(blob.begin(), blob.end());
  return join;
}

std::string Note::text() const {
  return fmt::format("{} of {} ranks are here{}{}", came, nranks,
                     missing.empty() ? "" : ", missing: ", missing);
}

std::vector<std::byte> encode_note(const Note& note) {
  ByteWriter out;
  out.write(note.came);
  out.write(note.nranks);
  out.write_bytes(bytes_of(note.missing, kMaxTextBytes));
  return out.take();
}

Result<Note> decode_note(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  Note note;
  std::span<const std::byte> missing;
  const bool whole = reader.read(note.came) && reader.read(note.nranks) &&
                     reader.read_bytes(reader.remaining(), missing);
  if (!whole || missing.size() > kMaxTextBytes) return damaged("note");
  note.missing = printable(missing);
  return note;
}

std::vector<std::byte> encode_table(std::span<const Join* const> by_rank) {
  ByteWriter out;
  out.write(static_cast<std::uint32_t>(by_rank.size()));
  for (const Join* join : by_rank) {
    out.write(static_cast<std::uint32_t>(join->blob.size()));
    out.write_bytes(join->blob);
  }
  return out.take();
}

Result<BlobTable> decode_table(std::span<const std::byte> bytes, int nranks) {
  ByteReader reader(bytes);
  std::uint32_t count = 0;
  if (!reader.read(count) || count != static_cast<std::uint32_t>(nranks) ||
      reader.remaining() < std::uint64_t{count} * 4) {
    return damaged("table");
  }
  BlobTable table(count);
  for (std::vector<std::byte>& blob : table) {
    std::uint32_t length = 0;
    std::span<const std::byte> content;
    if (!reader.read(length) || length > kMaxBlobBytes || !reader.read_bytes(length, content))
      return damaged("table");
    blob.assign(content.begin(), content.end());
  }
  if (reader.remaining() != 0) return damaged("table");
  return table;
}

std::vector<std::byte> encode_failure(const Status& failure) {
  ByteWriter out;
  out.write(static_cast<std::int32_t>(failure.code()));
  out.write_bytes(bytes_of(failure.message(), kMaxTextBytes));
  return out.take();
}

Status decode_failure(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  std::int32_t code = 0;
  std::span<const std::byte> text;
  if (!reader.read(code) || !reader.read_bytes(reader.remaining(), text)) return damaged("failure");
  if (code == 0 || !is_code(code) || text.size() > kMaxTextBytes) return damaged("failure");
  return Status(static_cast<Code>(code), printable(text));
}

}  // namespace sparcl::net
