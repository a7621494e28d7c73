#include "src/replication/staged_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace sparcl::replication {

StagedUpdate::StagedUpdate(Commit commit, trust::Signatures signatures,
                           std::uint64_t max_replaced_bytes)
    : max_replaced_bytes_(commit.has_no_base() ? 0 : max_replaced_bytes) {
  update_->commit = std::move(commit);
  update_->signatures = std::move(signatures);
  if (!update_->signatures.empty())
    proof_ = std::make_shared<const Offer>(Offer{update_->commit, update_->signatures});
  update_->missing_bytes = update_->commit.stream_bytes;
  if (leaf_count(update_->commit.stream_bytes) == 1)
    update_->leaves = {update_->commit.stream_digest};  // the root is the leaf
}

void StagedUpdate::set_identity(std::shared_ptr<const Identity> identity) {
  identity_ = std::move(identity);
  update_->leaves.resize(leaf_count(commit().stream_bytes));
}

void StagedUpdate::change_sender(Leaf leaf) {
  leaf_ = leaf;
  arrived_ = received_bytes();
  coming_leaves_.clear();
}

Status StagedUpdate::take_leaves(const Leaves& leaves) {
  const std::uint64_t count = leaf_count(commit().stream_bytes);
  const std::uint64_t known = coming_leaves_.size();
  if (has_leaves() || leaves.update != update_->name() || leaves.first != known ||
      leaves.digests.empty() || leaves.digests.size() > count - known) {
    return Status(
        Code::kCorrupt,
        fmt::format("digests {} to {} of version {} are out of place: awaited is digest {} of {}",
                    leaves.first, leaves.first + leaves.digests.size(), leaves.update.version,
                    known, count));
  }
  coming_leaves_.insert(coming_leaves_.end(), leaves.digests.begin(), leaves.digests.end());
  if (coming_leaves_.size() < count) return {};
  std::vector<Digest256> all = std::exchange(coming_leaves_, {});
  SPARCL_ASSIGN_OR_RETURN(const Digest256 root, root_of(all));
  if (root != commit().stream_digest) {
    return Status(Code::kCorrupt, fmt::format("the {} digests that were sent for version {} are "
                                              "not those that the publisher has announced",
                                              count, commit().version));
  }
  update_->leaves = std::move(all);
  return {};
}

Status StagedUpdate::check_leaf(std::uint64_t leaf, std::span<const std::byte> bytes) const {
  if (leaf_ == Leaf::kBelieved) return {};
  SPARCL_ASSIGN_OR_RETURN(const Digest256 digest, leaf_digest(bytes));
  if (digest == update_->leaves[leaf]) return {};
  return Status(
      Code::kCorrupt,
      fmt::format(
          "bytes {} to {} of version {} are not those that the publisher has announced (SHA-256)",
          leaf * kLeafBytes, leaf_end(leaf, commit().stream_bytes), commit().version));
}

Buffer StagedUpdate::destination(std::size_t count) {
  if (!has_leaves() || count > leaf_end(arrived_ / kLeafBytes, commit().stream_bytes) - arrived_)
    return {};
  update_->bytes.reserve(arrived_ + count);
  return update_->bytes.slice(arrived_, count);
}

Status StagedUpdate::received(std::size_t count) {
  const std::uint64_t leaf = arrived_ / kLeafBytes;
  const std::uint64_t begin = leaf * kLeafBytes, end = leaf_end(leaf, commit().stream_bytes);
  arrived_ += count;
  if (arrived_ < end) return {};
  Status status =
      check_leaf(leaf, update_->bytes.slice(begin, static_cast<std::size_t>(end - begin)).bytes());
  if (!status.ok()) {
    arrived_ = begin;
    return status;
  }
  update_->missing_bytes = commit().stream_bytes - end;
  return {};
}

Status StagedUpdate::adopt(std::uint64_t first_byte, Buffer memory) {
  const std::size_t count = memory.size();
  const std::uint64_t wanted =
      std::min<std::uint64_t>(Staging::kSegmentBytes, update_->missing_bytes);
  if (!has_leaves() || arrived_ != received_bytes() || first_byte != arrived_ ||
      first_byte % Staging::kSegmentBytes != 0 || count == 0 || count != wanted) {
    return Status(
        Code::kCorrupt,
        fmt::format(
            "a piece of {} bytes at byte {} of version {} is out of place: awaited is byte {}",
            count, first_byte, commit().version, arrived_));
  }
  for (std::size_t at = 0; at < count; at += kLeafBytes) {
    const std::span<const std::byte> leaf =
        memory.bytes().subspan(at, std::min<std::size_t>(kLeafBytes, count - at));
    SPARCL_RETURN_IF_ERROR(check_leaf((first_byte + at) / kLeafBytes, leaf));
  }
  update_->bytes.adopt(first_byte, std::move(memory));
  arrived_ += count;
  update_->missing_bytes -= count;
  return {};
}

Status StagedUpdate::check(const ReplicatedState& state, const HeldVersion& held,
                           std::uint64_t budget_blocks, bool& more) try {
  Status status = check_some(state, held, budget_blocks, more);
  if (status.code() == Code::kOutOfMemory) check_anew();
  return status;
} catch (const std::bad_alloc&) {
  check_anew();
  return no_memory();
}

void StagedUpdate::check_anew() {
  if (is_checked_) return;
  decoder_ = nullptr;
  seen_bytes_ = 0;
  more_ = false;
}

Status StagedUpdate::check_some(const ReplicatedState& state, const HeldVersion& held,
                                std::uint64_t budget_blocks, bool& more) {
  more = false;
  if (is_checked_) return {};
  if (commit().stream_bytes == 0) {  // a label
    if (commit().base_hash != held.hash || commit().target_hash != held.hash) {
      return Status(
          Code::kWrongBase,
          fmt::format(
              "version {} has the state {}, held is {}: an update without bytes leads nowhere",
              commit().version, to_hex(commit().target_hash), to_hex(held.hash)));
    }
    is_checked_ = true;
    return {};
  }
  if (decoder_ == nullptr) {
    decoder_ = std::make_unique<codec::UpdateDecoder>(
        *state.map, state.arrays,
        commit().has_no_base() || state.verify_all ? codec::Verify::kFull : codec::Verify::kTouched,
        state.schema_hash, *state.kernels);
    if (state.array_name) decoder_->set_array_name(state.array_name);
    if (state.workers != nullptr) decoder_->set_workers(*state.workers);
    if (!commit().is_anchor) decoder_->track(held.hash);
    if (max_replaced_bytes_ > 0) decoder_->keep_changes(max_replaced_bytes_);
  }
  seen_bytes_ = received_bytes();
  SPARCL_RETURN_IF_ERROR(decoder_->advance(update_->bytes, seen_bytes_, budget_blocks, more));
  more_ = more;
  return !more && has_all_bytes() ? finish() : Status();
}

Status StagedUpdate::finish() {
  SPARCL_RETURN_IF_ERROR(decoder_->finish(commit().stream_bytes));
  const std::optional<Hash128> target = decoder_->target_hash();
  if (!target || *target != commit().target_hash ||
      decoder_->target_version() != commit().version) {
    return Status(
        Code::kCorrupt,
        fmt::format(
            "the update leads to version {} with the state {}, the commit says version {} with {}",
            decoder_->target_version(), target ? to_hex(*target) : "(unknown)", commit().version,
            to_hex(commit().target_hash)));
  }
  is_checked_ = true;
  return {};
}

Status StagedUpdate::apply(std::span<std::byte* const> arrays) {
  if (commit().stream_bytes == 0) {  // a label
    replaced_.emplace();
    return {};
  }
  if (!arrays.empty()) decoder_->write_to(arrays);
  SPARCL_RETURN_IF_ERROR(decoder_->apply(update_->bytes));
  replaced_ = decoder_->take_replaced();
  return {};  // to give the decoder's memory back takes its time: this one's end will do
}

std::optional<codec::ChangeLog> StagedUpdate::take_replaced() {
  return std::exchange(replaced_, std::nullopt);
}

}  // namespace sparcl::replication
