#pragma once
// What a replica gives of what it holds to those that take updates from it: all bytes (an anchor) to one that has none of them, the
// blocks that differ (a repair) to one that was damaged. Made piece by piece beside its other work; the arrays stay as they are
// meanwhile, and where they come to hold another version what is being made of them begins anew.
//
// None of it is signed: a publisher that signs what it publishes gives such bytes itself.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "src/replication/repair.hpp"
#include "src/replication/update_maker.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class HeldGiver {
 public:
  explicit HeldGiver(std::string model_id) : model_id_(std::move(model_id)) {}

  void want_anchor() { anchor_is_wanted_ = true; }
  void want_repair(const RepairRef& repair) { repairs_.push_back(repair); }
  // Not while a repair is still being sent: one replica has one at a time in memory.
  bool wants_work() const { return anchor_is_wanted_ || repairer_ != nullptr || (!repairs_.empty() && made_repair_.expired()); }

  enum class Outcome : std::uint8_t {
    kMore,     // there is more to do
    kMade,     // those who wait for it will find it: an anchor in the store, or in the repair
    kGivenUp,  // new versions have interrupted it too often: they are to look elsewhere
    kDamaged,  // the arrays do not hold `held`
  };
  // Some milliseconds of work on what the arrays of `state` hold.
  Outcome work(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch, UpdateStore& store);
  // Nobody waits any more.
  void drop();

 private:
  void begin(const ReplicatedState& state, const HeldVersion& held, std::uint64_t epoch);
  Outcome make_anchor(UpdateStore& store);
  Outcome make_repair();

  std::string model_id_;
  bool anchor_is_wanted_ = false;
  std::deque<std::weak_ptr<Repair>> repairs_;  // that are wanted: their sessions'
  HeldVersion of_;                             // what is being made is made of this
  int attempts_ = 0;                           // at the anchor
  std::unique_ptr<UpdateMaker> maker_;
  std::unique_ptr<RepairMaker> repairer_;
  std::weak_ptr<const Update> made_repair_;
};

}  // namespace sparcl::replication
