#pragma once
// All bytes of the version that a replica holds, made for a replica that has none
// (docs/decisions/0034-peers-give-all-bytes.md). An anchor is made piece by piece beside other
// work. If another version is held meanwhile, it is begun anew, a few times at most. The giver then
// rests: peers cause this work, and it takes at most a fifth of the time.
//
// The child believes nothing of it: it compares all bytes with the publisher's SHA-256. So the
// anchor has neither a signature nor digests of its own.

#include <memory>
#include <string>
#include <utility>

#include "src/replication/update_maker.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class HeldGiver {
 public:
  HeldGiver(std::string model_id, PeerBudgetRef budget)
      : model_id_(std::move(model_id)), budget_(std::move(budget)) {}

  // What is made; nullptr: it is not yet, and wanted now.
  UpdateRef give();
  bool is_wanted() const { return is_wanted_; }
  // No replica waits any more.
  void drop();
  void start_over() {  // nor is what was made of use
    drop();
    made_ = nullptr;
  }

  enum class Outcome : std::uint8_t {
    kMore,     // there is more to do
    kMade,     // give() has it
    kGivenUp,  // no memory, too many versions, or it rests: the publisher is to give the bytes
    kDamaged,  // the arrays do not hold `held`
  };
  // Some milliseconds of work. The arrays of `state` hold `held` until it returns. epoch: the
  // publisher's.
  Outcome work(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch,
               double now);
  // This version is held now: an anchor of another one is given no more.
  void hold(const HeldVersion& held);
  // An anchor that is not being sent would only take memory.
  void let_go();

 private:
  static constexpr int kMaxAttempts = 3;  // that new versions interrupt; heuristic

  static constexpr double kRestPart = 4;  // times what it took

  Outcome work_on(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch,
                  double now);
  Status begin(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch,
               double now);
  UpdateRef finish();

  std::string model_id_;
  PeerBudgetRef budget_;
  bool is_wanted_ = false;
  int attempts_ = 0;
  double begun_at_ = 0;
  double worked_at_ = 0;
  double rests_until_ = 0;
  HeldVersion of_;
  std::unique_ptr<UpdateMaker> maker_;
  UpdateRef made_;
};

}  // namespace sparcl::replication
