#include "src/model/attachment.hpp"

#include <fmt/format.h>

#include "src/base/bytes.hpp"
#include "src/model/fields.hpp"

namespace sparcl::model {
namespace {

constexpr std::uint8_t kAttachmentVersion = 1;
constexpr std::uint8_t kLayout = 1;
constexpr std::uint8_t kSideFiles = 2;
constexpr std::uint8_t kIdentities = 4;

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
                                         (attachment.side_files.empty() ? 0 : kSideFiles) |
                                         (attachment.identities ? kIdentities : 0)));
  if (attachment.layout) {
    const std::vector<std::byte> layout = serialise(*attachment.layout);
    writer.write_varint(layout.size());
    writer.write_bytes(layout);
  }
  if (!attachment.side_files.empty()) serialise(attachment.side_files, writer);
  if (attachment.identities) {
    writer.write_bytes(attachment.identities->base);
    writer.write_bytes(attachment.identities->target);
  }
  return writer.take();
}

Result<Attachment> parse_attachment(std::span<const std::byte> bytes, std::uint64_t max_entries) {
  ByteReader reader(bytes);
  Attachment attachment;
  std::uint8_t version = 0;
  std::uint8_t flags = 0;
  if (!reader.read(version) || version != kAttachmentVersion || !reader.read(flags))
    return damaged(reader.position());
  if (flags == 0 || flags > (kLayout | kSideFiles | kIdentities)) return damaged(reader.position());
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
  if ((flags & kIdentities) != 0) {
    StateIdentities& identities = attachment.identities.emplace();
    if (!read_array(reader, identities.base) || !read_array(reader, identities.target))
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
  // compose_identities() has them: an update without an attachment has none.
  first.identities.reset();
  return first;
}

Result<std::optional<StateIdentities>> compose_identities(
    std::span<const std::optional<StateIdentities>> updates) {
  std::optional<StateIdentities> all;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (!updates[i]) return std::optional<StateIdentities>();
    if (i == 0) all = updates[i];
    if (i > 0 && updates[i]->base != all->target) {
      return Status(Code::kWrongBase,
                    fmt::format("delta {} begins at other bytes than those where delta {} ends "
                                "(SHA-256), though their state hashes are equal: one of them was "
                                "made by an attacker",
                                i + 1, i));
    }
    all->target = updates[i]->target;
  }
  return all;
}

}  // namespace sparcl::model
