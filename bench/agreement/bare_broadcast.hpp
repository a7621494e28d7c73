#pragma once
// One array's broadcast with and without the round in which the ranks agree on the call; all else
// is the same.

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/broadcast/broadcast.hpp"

namespace sparcl::bench {

enum class Agreement {
  kNone,     // stream and vote alone: a rank that called otherwise would make it hang, or worse
  kOverlap,  // as the library does: the root encodes meanwhile
  kBefore,   // the root waits for it
};

// An array of bf16 that goes to and fro between two states.
class Flip {
 public:
  Flip(std::size_t count, double density, bool is_root);

  comm::Task broadcast(const comm::CommContext& comm, std::uint32_t number, Agreement agreement);
  std::uint64_t stream_bytes() const { return stream_bytes_; }
  bool is_right() const;

 private:
  comm::Task run(const comm::CommContext& comm, std::uint32_t number, Agreement agreement,
                 collectives::broadcast::BroadcastCall& call);

  bool is_root_;
  codec::ArraySpec array_;
  codec::BlockMap map_;
  std::vector<std::uint16_t>
      states_[2];  // root: both; other ranks: the base, and the expected state
  std::vector<std::uint16_t> held_;
  int now_ = 0;
  std::uint64_t stream_bytes_ = 0;
};

}  // namespace sparcl::bench
