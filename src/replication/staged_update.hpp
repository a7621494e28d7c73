#pragma once
// An update on its way into a replica: its bytes as they come, and what is known of them. Bytes
// count once their leaf is whole. If the sender is not the publisher, the leaf must also have the
// digest that the commit stands for. Other bytes are not decoded, passed on, or kept when the
// sender changes.

#include <memory>
#include <optional>

#include "src/replication/replicated_state.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class StagedUpdate {
 public:
  // max_replaced_bytes: that are kept of the values that it replaces, unless it is an anchor or a
  // repair.
  StagedUpdate(Commit commit, trust::Signatures signatures, std::uint64_t max_replaced_bytes = 0);

  const Commit& commit() const { return update_->commit; }
  const Update& update() const { return *update_; }
  // Another replica has made it: only all bytes that it leads to can be checked, against this.
  // nullptr: the publisher has made it.
  // Its leaves have no digests.
  void set_identity(std::shared_ptr<const Identity> identity);
  const std::shared_ptr<const Identity>& identity() const { return identity_; }
  // The signed commit, made before it is needed; nullptr: it is not signed.
  const std::shared_ptr<const Offer>& proof() const { return proof_; }
  UpdateRef shared() const {
    return update_;
  }  // for those that it is passed on to, while its bytes come
  std::uint64_t received_bytes() const { return update_->ready_bytes(); }  // and checked
  bool has_all_bytes() const { return update_->missing_bytes == 0; }

  // A sender begins after received_bytes(): what else came of the one before is forgotten. Leaves
  // of the publisher itself need no digest: it has announced them over the same connection. Nor do
  // those of another replica's own anchor, which names their root itself.
  enum class Leaf : std::uint8_t { kChecked, kBelieved };
  void change_sender(Leaf leaf);
  bool has_leaves() const { return update_->has_leaves(); }
  // The next leaves. Corrupt: they are out of order, or not the leaves of the commit. The sender is
  // to blame.
  Status take_leaves(const Leaves& leaves);
  std::uint64_t next_byte() const { return arrived_; }
  // The memory for the next bytes, within one leaf. Empty: they are not wanted yet, or are too
  // many.
  Buffer destination(std::size_t count);
  // The bytes are there. Corrupt: the leaf that they end is wrong and is to come again. The sender
  // is to blame.
  Status received(std::size_t count);
  // The next bytes as memory: a whole segment of Staging's, or those up to the end. Corrupt: they
  // are not these.
  Status adopt(std::uint64_t first_byte, Buffer memory);

  // Checks on what is there against the base, which `state` holds now, or against nothing for an
  // anchor. `more`: there is more to do. Corrupt, WrongBase, Mismatch: it is of no use.
  // OutOfMemory: it can be checked anew.
  Status check(const ReplicatedState& state, const HeldVersion& held, std::uint64_t budget_blocks,
               bool& more);
  // Something has come since the last check(), or was left.
  bool has_checks() const {
    return !is_checked_ && (more_ || received_bytes() > seen_bytes_ || commit().stream_bytes == 0);
  }
  // All bytes are there and every check has passed: apply() will not fail.
  bool is_checked() const { return is_checked_; }
  // After is_checked(): the arrays that it was checked against hold its target already.
  bool is_held_already() const { return decoder_ != nullptr && decoder_->already_applied(); }
  // Once. arrays: where it is written instead, which hold the same; none: where it was checked.
  // Allocates nothing.
  Status apply(std::span<std::byte* const> arrays = {});
  // After apply(), once: nothing where they were not kept.
  std::optional<codec::ChangeLog> take_replaced();

 private:
  Status check_leaf(std::uint64_t leaf, std::span<const std::byte> bytes) const;
  void check_anew();  // what is half checked is forgotten
  Status check_some(const ReplicatedState& state, const HeldVersion& held,
                    std::uint64_t budget_blocks, bool& more);
  Status finish();

  std::shared_ptr<Update> update_ = std::make_shared<Update>();
  std::shared_ptr<const Offer> proof_;
  std::shared_ptr<const Identity> identity_;
  std::vector<Digest256> coming_leaves_;  // the first ones, not checked yet
  Leaf leaf_ = Leaf::kChecked;
  std::uint64_t arrived_ =
      0;  // bytes: those that are checked, and the first ones of the leaf after them
  std::unique_ptr<codec::UpdateDecoder> decoder_;
  std::uint64_t max_replaced_bytes_;
  std::optional<codec::ChangeLog> replaced_;
  std::uint64_t seen_bytes_ = 0;  // by check()
  bool more_ = false;
  bool is_checked_ = false;
};

}  // namespace sparcl::replication
