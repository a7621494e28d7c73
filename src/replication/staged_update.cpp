#include "src/replication/staged_update.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace sparcl::replication {

StagedUpdate::StagedUpdate(Commit commit, std::optional<CommitSignature> signature, std::uint64_t most_replaced_bytes)
    : most_replaced_bytes_(commit.has_no_base() ? 0 : most_replaced_bytes) {
  update_->commit = std::move(commit);
  update_->signature = signature;
  if (signature) proof_ = std::make_shared<const Offer>(Offer{update_->commit, signature});
  update_->missing_bytes = update_->commit.stream_bytes;
}

Buffer StagedUpdate::place(std::size_t count) {
  if (count > update_->missing_bytes) return {};
  update_->bytes.reserve(received_bytes() + count);
  return update_->bytes.slice(received_bytes(), count);
}

void StagedUpdate::received(std::size_t count) {
  update_->missing_bytes -= count;
  if (update_->signature) digest_.advance(update_->bytes, received_bytes());
}

bool StagedUpdate::adopt(std::uint64_t first_byte, Buffer memory) {
  const std::size_t count = memory.size();
  const std::uint64_t wanted = std::min<std::uint64_t>(Staging::kSegmentBytes, update_->missing_bytes);
  if (first_byte != received_bytes() || first_byte % Staging::kSegmentBytes != 0 || count == 0 || count != wanted) return false;
  update_->bytes.adopt(first_byte, std::move(memory));
  received(count);
  return true;
}

Status StagedUpdate::check_digest() {
  const Result<std::array<std::byte, 32>> digest = digest_.finish();
  if (!digest.ok()) return digest.status();
  if (*digest == commit().stream_digest) return {};
  return Status(Code::kUnauthorized, "the bytes of the update are not those that were signed (SHA-256)");
}

Status StagedUpdate::check(const ReplicatedState& state, const HeldVersion& held, std::uint64_t budget_blocks, bool& more) try {
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

Status StagedUpdate::check_some(const ReplicatedState& state, const HeldVersion& held, std::uint64_t budget_blocks, bool& more) {
  more = false;
  if (is_checked_) return {};
  if (commit().stream_bytes == 0) {  // a label
    if (commit().base_hash != held.hash || commit().target_hash != held.hash) {
      return Status(Code::kWrongBase, fmt::format("version {} has the state {}, held is {}: an update without bytes leads nowhere",
                                                  commit().version, to_hex(commit().target_hash), to_hex(held.hash)));
    }
    is_checked_ = true;
    return {};
  }
  if (decoder_ == nullptr) {
    decoder_ = std::make_unique<codec::UpdateDecoder>(
        *state.map, state.arrays, commit().has_no_base() || state.verify_all ? codec::Verify::kFull : codec::Verify::kTouched,
        state.schema_hash, *state.kernels);
    if (state.array_name) decoder_->set_array_name(state.array_name);
    if (state.workers != nullptr) decoder_->set_workers(*state.workers);
    if (!commit().is_anchor) decoder_->track(held.hash);
    if (most_replaced_bytes_ > 0) decoder_->keep_changes(most_replaced_bytes_);
  }
  seen_bytes_ = received_bytes();
  SPARCL_RETURN_IF_ERROR(decoder_->advance(update_->bytes, seen_bytes_, budget_blocks, more));
  more_ = more;
  return !more && has_all_bytes() ? finish() : Status();
}

Status StagedUpdate::finish() {
  SPARCL_RETURN_IF_ERROR(decoder_->finish(commit().stream_bytes));
  const std::optional<Hash128> target = decoder_->target_hash();
  if (!target || *target != commit().target_hash || decoder_->target_version() != commit().version) {
    return Status(Code::kCorrupt,
                  fmt::format("the update leads to version {} with the state {}, the commit says version {} with {}",
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

std::optional<codec::ChangeLog> StagedUpdate::take_replaced() { return std::exchange(replaced_, std::nullopt); }

}  // namespace sparcl::replication
