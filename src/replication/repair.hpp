#pragma once
// Repairs a replica's damaged memory: only the blocks that differ from a version travel, each
// whole.

#include <memory>
#include <vector>

#include "src/model/state_identity.hpp"
#include "src/replication/update_maker.hpp"

namespace sparcl::replication {

// The repair of one replica. Its session asks for it and reads the result.
struct Repair {
  HeldVersion wanted;                 // what it held before
  Hash128 held_hash;                  // of the state that it holds, which is no version
  std::vector<Hash128> block_hashes;  // of each block of it (codec::add_block_hashes), or else
  std::vector<Digest256> digests;     // of bytes that are not vouched for (model::StateIdentity)
  int attempts = 0;
  bool is_over = false;
  UpdateRef update;  // then: nullptr where so much differs that all bytes may as well be sent
};
using RepairRef = std::shared_ptr<Repair>;
inline constexpr int kMaxRepairAttempts =
    3;  // that new versions interrupt: then all bytes are sent; heuristic

// Finds the blocks that differ, and codes them, piece by piece beside the serving of replicas.
class RepairMaker {
 public:
  // target: holds the version that `commit` names until the end. commit: all of it but what the
  // coding tells.
  RepairMaker(const ReplicatedState& state, UpdateMaker::Arrays target, RepairRef repair,
              Commit commit);

  // Some milliseconds of work. True when it is over.
  Result<bool> step();
  // Then once: the update, not sealed yet; nullptr: too much differs.
  std::shared_ptr<Update> take() { return maker_ == nullptr ? nullptr : maker_->take(); }
  StreamDigest& digest() { return maker_->digest(); }
  const RepairRef& repair() const { return repair_; }

 private:
  Status compare_on();
  void note(bool differs);

  ReplicatedState state_;
  UpdateMaker::Arrays target_;
  RepairRef repair_;
  Commit commit_;
  model::StateIdentity target_digest_;
  std::uint64_t next_block_ = 0;
  std::vector<std::uint64_t> differing_;  // bit i of word i/64: of block i
  std::uint64_t differing_count_ = 0;
  std::unique_ptr<UpdateMaker> maker_;  // once all are compared
};

}  // namespace sparcl::replication
