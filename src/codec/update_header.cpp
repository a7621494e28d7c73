#include "src/codec/update_header.hpp"

#include "src/base/bytes.hpp"

namespace sparcl::codec {
namespace {

Hash128 load_hash(const std::byte* at) {
  return {load_le<std::uint64_t>(at), load_le<std::uint64_t>(at + 8)};
}

void write_hash(ByteWriter& writer, const Hash128& hash) {
  writer.write(hash.low);
  writer.write(hash.high);
}

}  // namespace

std::array<std::byte, kUpdateHeaderBytes - kCrcBytes> serialise(const UpdateHeader& header) {
  std::array<std::byte, kUpdateHeaderBytes - kCrcBytes> bytes;
  store_le(bytes.data(), header.base_version);
  store_le(bytes.data() + 8, header.target_version);
  store_le(bytes.data() + 16, header.schema_hash.low);
  store_le(bytes.data() + 24, header.schema_hash.high);
  store_le(bytes.data() + 32, header.layout_hash);
  store_le(bytes.data() + 40, header.elements);
  store_le(bytes.data() + 48, header.arrays);
  store_le(bytes.data() + 52, header.flags);
  return bytes;
}

Result<UpdateHeader> parse_update_header(const std::byte* content) {
  UpdateHeader header;
  header.base_version = load_le<std::uint64_t>(content);
  header.target_version = load_le<std::uint64_t>(content + 8);
  header.schema_hash = load_hash(content + 16);
  header.layout_hash = load_le<std::uint64_t>(content + 32);
  header.elements = load_le<std::uint64_t>(content + 40);
  header.arrays = load_le<std::uint32_t>(content + 48);
  header.flags = load_le<std::uint32_t>(content + 52);
  if ((header.flags & ~kFlags) == 0) return header;
  return Status(Code::kCorrupt, "the header has flags that this wire version does not define");
}

std::vector<std::byte> serialise(const UpdateEnd& end, std::uint32_t flags) {
  ByteWriter writer;
  writer.write(end.blocks);
  writer.write(end.coded_elements);
  writer.write(end.changed);
  if ((flags & kFlagBaseHash) != 0) write_hash(writer, end.base_hash);
  if ((flags & kFlagTargetHash) != 0) write_hash(writer, end.target_hash);
  return writer.take();
}

Result<UpdateEnd> parse_update_end(std::span<const std::byte> content, std::uint32_t flags) {
  const bool has_base = (flags & kFlagBaseHash) != 0;
  const bool has_target = (flags & kFlagTargetHash) != 0;
  if (content.size() != kEndBytes + 16 * (std::size_t{has_base} + std::size_t{has_target})) {
    return Status(Code::kCorrupt, "the end has another length than the header's flags say");
  }
  const std::byte* at = content.data();
  UpdateEnd end{load_le<std::uint64_t>(at),
                load_le<std::uint64_t>(at + 8),
                load_le<std::uint64_t>(at + 16),
                {},
                {}};
  at += 24;
  if (has_base) end.base_hash = load_hash(at);
  if (has_target) end.target_hash = load_hash(at + (has_base ? 16 : 0));
  return end;
}

}  // namespace sparcl::codec
