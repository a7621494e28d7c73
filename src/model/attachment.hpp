#pragma once
// The attachment of a file's update: the data that is sent besides the tensors' bytes
// (docs/reference/delta-file.md).

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/layout_change.hpp"
#include "src/model/side_file.hpp"
#include "src/model/stream_digest.hpp"

namespace sparcl::model {

// Names base and target, also against an attacker (state_identity.hpp).
struct StateIdentities {
  Digest256 base{}, target{};
};

struct Attachment {
  std::optional<LayoutChange> layout;  // if the target's headers or index differ from the base's
  std::vector<PackedFile> side_files;  // by name
  std::optional<StateIdentities> identities{};

  bool empty() const { return !layout && side_files.empty() && !identities; }
};

// Returns no bytes for an empty one.
std::vector<std::byte> serialise(const Attachment& attachment);

// For untrusted bytes. max_entries: of the layout's change (parse_layout_change()).
Result<Attachment> parse_attachment(std::span<const std::byte> bytes,
                                    std::uint64_t max_entries = UINT64_MAX);

// Composes the attachments of consecutive updates, without their bases; errors as of
// compose_layout_changes(). The result has no identities.
Result<Attachment> compose_attachments(Attachment first, Attachment second);

// Identities of consecutive updates as one, if each update has them. WrongBase: one does not begin
// where the one before it ends.
Result<std::optional<StateIdentities>> compose_identities(
    std::span<const std::optional<StateIdentities>> updates);

}  // namespace sparcl::model
