// The files beside the shards of what is published.

#include <fmt/format.h>

#include "src/replication/publisher.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxPackedBytes =
    kMaxSideFilesMessage - (std::size_t{1} << 20);  // names and signatures have the rest

}  // namespace

Status Publisher::set_side_files(std::span<const model::SideFile> files) {
  SideFileSet set;
  SPARCL_ASSIGN_OR_RETURN(set.digest, model::digest_of(files));
  std::size_t bytes = 0;
  set.files.emplace();
  for (const model::SideFile& file : files) {
    SPARCL_ASSIGN_OR_RETURN(model::PackedFile packed, model::pack(file));
    bytes += packed.packed.size();
    set.files->push_back(std::move(packed));
  }
  if (bytes > kMaxPackedBytes) {
    return Status(Code::kUnsupported,
                  fmt::format("the files beside the shards take {} bytes, compressed; at most {} "
                              "can be told to replicas",
                              bytes, kMaxPackedBytes));
  }
  const std::lock_guard one(publishing_);
  next_side_files_ = std::move(set);
  return {};
}

// With the version that takes effect now. Without memory nothing changes.
void Publisher::take_next_side_files(std::uint64_t version) {
  if (!next_side_files_) return;
  next_side_files_->since = version;
  context_.side_files = describe_side_files(*next_side_files_);
  side_files_ = std::move(*next_side_files_);
  next_side_files_.reset();
}

// By the epoch and the keys as they are now.
SideFilesRef Publisher::describe_side_files(SideFileSet& set) const {
  set.model_id = options_.model_id;
  set.epoch = issuer_.epoch;
  set.signatures = issuer_.sign(signed_bytes(set));
  const SideFileSet bare{set.model_id, set.epoch, set.since, set.digest, set.signatures, {}};
  return std::make_shared<const SideFilesAnswer>(
      SideFilesAnswer{set.digest, WholeMessage(MessageType::kSideFiles, serialise(set)),
                      WholeMessage(MessageType::kSideFiles, serialise(bare))});
}

}  // namespace sparcl::replication
