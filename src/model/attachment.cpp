#include "src/model/attachment.hpp"

#include <fmt/format.h>

#include "src/base/bytes.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint8_t kAttachmentVersion = 1;
constexpr std::uint8_t kLayout = 1;
constexpr std::uint8_t kSideFiles = 2;

Status damaged(std::size_t at) {
  return Status(Code::kCorrupt,
                fmt::format("the attachment is damaged at its byte {}, or of a later version", at));
}

}  // namespace

std::vector<std::byte> serialise(const Attachment& attachment) {
  ByteWriter writer;
  if (attachment.empty()) return writer.take();
  writer.write(kAttachmentVersion);
  writer.write(static_cast<std::uint8_t>((attachment.layout ? kLayout : 0) |
                                         (attachment.side_files.empty() ? 0 : kSideFiles)));
  if (attachment.layout) {
    const std::vector<std::byte> layout = serialise(*attachment.layout);
    writer.write_varint(layout.size());
    writer.write_bytes(layout);
  }
  if (!attachment.side_files.empty()) serialise(attachment.side_files, writer);
  return writer.take();
}

Result<Attachment> parse_attachment(std::span<const std::byte> bytes, std::uint64_t max_entries) {
  ByteReader reader(bytes);
  Attachment attachment;
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  if (!reader.read(version) || version != kAttachmentVersion || !reader.read(flags))
    return damaged(reader.position());
  if (flags == 0 || flags > (kLayout | kSideFiles)) return damaged(reader.position());
  if ((flags & kLayout) != 0) {
    std::uint64_t length = 0;
    std::span<const std::byte> layout;
    if (!reader.read_varint(length) || !reader.read_bytes(length, layout))
      return damaged(reader.position());
    SPARCL_ASSIGN_OR_RETURN(LayoutChange change, parse_layout_change(layout, max_entries));
    attachment.layout = std::move(change);
  }
  if ((flags & kSideFiles) != 0 &&
      (!parse_side_files(reader, attachment.side_files) || attachment.side_files.empty())) {
    return damaged(reader.position());
  }
  if (reader.remaining() > 0) return damaged(reader.position());
  return attachment;
}

Result<Attachment> compose_attachments(Attachment first, Attachment second) {
  if (!first.layout) {
    first.layout = std::move(second.layout);
  } else if (second.layout) {
    SPARCL_ASSIGN_OR_RETURN(LayoutChange layout,
                            compose_layout_changes(*first.layout, *second.layout));
    first.layout = std::move(layout);
  }
  if (first.layout && first.layout->base_digest == first.layout->target_digest)
    first.layout.reset();  // there and back
  replace_side_files(first.side_files, std::move(second.side_files));
  return first;
}

}  // namespace sparcl::model
