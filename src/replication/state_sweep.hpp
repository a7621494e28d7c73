#pragma once
// Checks the whole state of a replica now and then, piece by piece beside its other work. It finds
// memory that is damaged, or that the program wrote to: else such bytes would be served for ever.

#include "src/replication/message.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/rollback.hpp"

namespace sparcl::replication {

class StateSweep {
 public:
  // period_s: between two passes; 0: none. has_two_sets: versions alternate between two sets of
  // arrays.
  explicit StateSweep(double period_s, bool has_two_sets = false)
      : period_s_(period_s), has_two_sets_(has_two_sets) {}

  // When step() has something to do, if a version is held.
  double due() const { return due_; }
  // There is reason to look: what was made of the arrays is not the version that they hold.
  void look_now() { due_ = due_ > 0 && period_s_ > 0 ? 1e-9 : due_; }
  // There is no memory for it now.
  void rest(double until) { due_ = until; }
  // The changes since then are not what rollback will tell: a pass begins anew.
  void forget_pass() { is_begun_ = false; }
  // A millisecond of a pass. If the version has changed, the pass first takes up the changes of the
  // blocks that it has seen. If rollback does not tell these changes, the pass begins anew. A pass
  // may therefore last longer than a version. The arrays stay as they are meanwhile.
  // Corrupt, at the end of a pass: they do not hold `held`, but found().
  Status step(const ReplicatedState& state, const HeldVersion& held, const Rollback& rollback,
              double now);
  const Hash128& found() const { return found_; }
  // Then, until the next pass: of each block of what is held, and what should be held. None where
  // they are too many to be told.
  const std::vector<Hash128>& block_hashes() const { return block_hashes_; }
  const HeldVersion& wanted() const { return of_; }

 private:
  void begin(const ReplicatedState& state, const HeldVersion& held);
  bool follow(const ReplicatedState& state, const HeldVersion& held, const Rollback& rollback);
  void look_at_blocks(const ReplicatedState& state);

  double period_s_;
  bool has_two_sets_;
  double due_ = 0;  // 0: no version was seen yet
  HeldVersion of_;
  HeldVersion to_;             // that it is being led on to,
  std::size_t followed_ = 0;   // by so many blocks of what has changed
  bool has_followed_ = false;  // in this pass
  bool wants_certainty_ =
      false;  // of what a pass has found that saw some blocks of one set, and some of the other
  bool is_begun_ = false;
  std::uint64_t next_block_ = 0;
  Hash128 found_;
  std::vector<Hash128> block_hashes_;
};

}  // namespace sparcl::replication
