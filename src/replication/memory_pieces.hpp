#pragma once
// Bytes of updates as sealed memory, for replicas of the same machine: each piece is made once for
// all of them.

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "src/net/sealed_memory.hpp"
#include "src/replication/message.hpp"
#include "src/replication/update_store.hpp"

namespace sparcl::replication {

using SealedMemoryRef = std::shared_ptr<const net::SealedMemory>;

class MemoryPieces {
 public:
  explicit MemoryPieces(PeerBudgetRef budget) : budget_(std::move(budget)) {}
  // If that fails (log_debug says why), or is not done, no replica is invited.
  void open();
  // Nothing where it is not open.
  const std::optional<MemoryInvitation>& invitation() const { return invitation_; }

  // Bytes of an update, which are all there and lie in one segment of its staging. Others can reach
  // them while the piece is kept. SystemError: there is no memory, or so much was made of this
  // update that who held it before must still hold it, or the budget of peers has no room.
  Result<SealedMemoryRef> piece(const UpdateRef& update, std::uint64_t first_byte,
                                std::size_t count, double now);
  void forget_old(double now);

 private:
  struct Piece {
    std::uint64_t first_byte = 0;
    SealedMemoryRef memory;
    double used_at = 0;
  };
  struct Made {
    std::weak_ptr<const Update> update;
    std::uint64_t bytes = 0;   // made of it
    std::deque<Piece> pieces;  // the last ones: others will fetch them soon
  };

  PeerBudgetRef budget_;
  std::optional<MemoryInvitation> invitation_;
  SealedMemoryRef proof_;  // that a replica can reach what this process makes
  std::deque<Made> made_;
};

}  // namespace sparcl::replication
