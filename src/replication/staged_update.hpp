#pragma once
// An update on its way into a replica: its bytes as they come, and what is known of them.

#include <memory>

#include "src/replication/replicated_state.hpp"
#include "src/replication/stream_digest.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class StagedUpdate {
 public:
  explicit StagedUpdate(Update update) : update_(std::move(update)) {}

  const Commit& commit() const { return update_.commit; }
  const Update& update() const { return update_; }
  std::uint64_t received_bytes() const { return received_bytes_; }
  bool has_all_bytes() const { return received_bytes_ == commit().stream_bytes; }

  // Where the next bytes go: within one multiple of kMaxChunkBytes, and within the update.
  std::span<std::byte> place(std::size_t count);
  void received(std::size_t count);
  // Once, when all bytes are there. Unauthorized: they are not those that were signed.
  Status check_digest();

  // Checks on what is there against the base, which `state` holds now, or against nothing for an anchor. `more`: there is more to
  // do. Corrupt, WrongBase, Mismatch: it is of no use.
  Status check(const ReplicatedState& state, const HeldVersion& held, std::uint64_t budget_blocks, bool& more);
  // All bytes are there and every check has passed: apply() will not fail.
  bool is_checked() const { return is_checked_; }
  Status apply();

 private:
  Status finish();

  Update update_;
  std::uint64_t received_bytes_ = 0;
  StreamDigest digest_;
  std::unique_ptr<codec::UpdateDecoder> decoder_;
  bool is_checked_ = false;
};

}  // namespace sparcl::replication
