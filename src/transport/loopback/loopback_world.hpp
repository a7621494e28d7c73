#pragma once
// Ranks inside one process. Two ways to run them:
//  - threads: each rank's Transport is used by a thread of its own; time is the steady clock;
//  - deterministic: all ranks on one thread; a message stays in flight until deliver_one() picks
//  it, in any order that the contract
//    allows; time is virtual and moves by advance_to() only. Everything follows from the seeds, so
//    a failure is replayed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/seeded_random.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::transport {

class LoopbackCore;

struct LoopbackOptions {
  bool deterministic = false;
  std::uint64_t seed = 1;      // deterministic: of the world's own choices
  bool announce_death = true;  // false: a dead rank is only silent, so that deadlines must find it
  std::size_t eager_bytes = 8192;  // up to this size a send is copied and done at once (heuristic:
                                   // below, a copy is cheaper than waiting)
};

class LoopbackWorld {
 public:
  explicit LoopbackWorld(int ranks, const LoopbackOptions& options = {});

  int size() const;

  // Each rank's transport may be made once. Its destruction is an orderly leave: sent messages
  // still arrive, then the rank is dead to its peers. Transports may outlive the world.
  std::unique_ptr<Transport> make_transport(int rank);

  // Abrupt death: messages of the rank in flight may be lost. Its own transport returns errors from
  // now on.
  void kill(int rank);
  bool is_alive(int rank) const;

  // --- deterministic worlds only ---

  // Delivers one message, signal or news of a death, picked by `random` among all that may come
  // next. False: nothing is in flight.
  bool deliver_one(SeededRandom& random);
  std::size_t in_flight_count() const;

  double now() const;
  void advance_to(double seconds);  // an earlier time is ignored

  // Appends the ranks for which something has happened since the last call, each once.
  void take_roused(std::vector<int>& ranks);

 private:
  std::shared_ptr<LoopbackCore> core_;
};

}  // namespace sparcl::transport
