#pragma once
// Codes an update piece by piece, beside the serving of replicas: an anchor, one that is composed
// of several, or some blocks.

#include <memory>
#include <utility>

#include "src/codec/staging_sink.hpp"
#include "src/model/stream_digest.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

class UpdateMaker {
 public:
  // Those that are nullptr come from the source.
  struct Arrays {
    std::vector<const std::byte*> pointers;
    std::shared_ptr<const codec::ArraySource> source;

    codec::ArrayInput input() const { return {pointers, source.get()}; }
  };
  // target: holds the version until the end. base: all arrays of the version that the commit names
  // as such; nullptr: an anchor. commit: all of it but what the coding tells.
  UpdateMaker(const ReplicatedState& state, Arrays target,
              std::shared_ptr<const codec::ArraySource> base, Commit commit);
  // Those blocks of the target alone (bit i of word i/64), for one that holds commit.base_hash: it
  // then holds commit.target_hash.
  UpdateMaker(const ReplicatedState& state, Arrays target, std::vector<std::uint64_t> blocks,
              Commit commit);

  // So many bytes count for it until it is whole, and then its own.
  void charge_to(PeerBudgetRef budget, std::uint64_t bytes) {
    charge_ = std::make_shared<PeerBudget::Charge>(std::move(budget), bytes);
    update_->charge = charge_;
  }
  // Its receiver believes no digest of its bytes: none is made.
  void leave_digest_out() { has_digest_ = false; }
  // Some milliseconds of work. True when it is whole.
  Result<bool> step();
  // Then once: the update, not sealed yet (Issuer).
  std::shared_ptr<Update> take();
  StreamDigest& digest() { return digest_; }
  const Commit& commit() const { return update_->commit; }

 private:
  void begin(const ReplicatedState& state, Commit commit, codec::EncodeOptions options);

  std::shared_ptr<Update> update_ = std::make_shared<Update>();
  std::shared_ptr<PeerBudget::Charge> charge_;  // nullptr: it counts for nothing
  codec::StagingSink sink_;
  StreamDigest digest_;
  bool has_digest_ = true;
  Arrays target_;
  std::shared_ptr<const codec::ArraySource> base_;
  std::vector<std::uint64_t> blocks_;  // empty: all
  std::vector<const std::byte*> none_;
  std::unique_ptr<codec::UpdateEncoder> encoder_;
};

}  // namespace sparcl::replication
