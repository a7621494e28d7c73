#pragma once
// A rollback from what a replica holds to what it held before the last next(): the values that
// its updates have replaced. One step, and no network; dropped where it would take too much memory.

#include <cstdint>
#include <deque>
#include <optional>

#include "src/codec/change_log.hpp"
#include "src/replication/message.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::replication {

class Rollback {
 public:
  // max_bytes: 0 keeps nothing.
  explicit Rollback(std::uint64_t max_bytes);

  std::uint64_t max_bytes() const { return max_bytes_; }
  // The version that it leads to, and its epoch; nothing: there is none, and why() says why.
  const std::optional<HeldVersion>& to() const { return to_; }
  std::uint64_t epoch() const { return epoch_; }
  const char* why() const { return why_; }

  // Updates lead on from here.
  void begin(const HeldVersion& from, std::uint64_t epoch) noexcept;
  // One of them was applied. replaced: nothing where its values were not kept.
  void add(std::optional<codec::ChangeLog> replaced) noexcept;
  void lose(const char* why) noexcept;

  // The values that the only update since `from` has replaced; nullptr: there were others, or it is
  // not known.
  const codec::ChangeLog* only_step_from(const HeldVersion& from) const {
    return to_ == from && replaced_.size() == 1 ? &replaced_.front() : nullptr;
  }

  // The arrays go from the state `held` back to the state of to(). Corrupt: they did not hold
  // `held`, and are as they were, as they are where memory runs out.
  Status go(const ReplicatedState& state, const HeldVersion& held);
  std::uint64_t elements() const;
  const std::deque<codec::ChangeLog>& replaced() const { return replaced_; }

  // Copies what has changed since to() from `from` to `to`. False, and
  // nothing was written: that is not known.
  bool copy(const ReplicatedState& state, std::span<std::byte* const> from,
            std::span<std::byte* const> to) const;

 private:
  std::uint64_t max_bytes_;
  std::optional<HeldVersion> to_;
  std::uint64_t epoch_ = 0;
  const char* why_;
  std::uint64_t bytes_ = 0;
  std::deque<codec::ChangeLog> replaced_;  // by one update after the other
};

}  // namespace sparcl::replication
