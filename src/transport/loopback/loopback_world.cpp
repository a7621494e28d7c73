#include "src/transport/loopback/loopback_world.hpp"

#include <cstdlib>

#include "src/transport/loopback/loopback_core.hpp"
#include "src/transport/loopback/loopback_transport.hpp"

namespace sparcl::transport {

LoopbackWorld::LoopbackWorld(int ranks, const LoopbackOptions& options)
    : core_(std::make_shared<LoopbackCore>(ranks, options)) {}

int LoopbackWorld::size() const { return core_->size(); }

std::unique_ptr<Transport> LoopbackWorld::make_transport(int rank) {
  if (rank < 0 || rank >= core_->size()) std::abort();  // a bug of the composing code
  loopback::Endpoint& own = core_->endpoint(rank);
  const std::lock_guard lock(own.mutex);
  if (own.made) std::abort();  // two transports of one rank would take each other's messages
  own.made = true;
  return std::make_unique<LoopbackTransport>(core_, rank);
}

void LoopbackWorld::kill(int rank) { core_->leave(rank, LoopbackCore::Leave::kAbrupt); }

bool LoopbackWorld::is_alive(int rank) const {
  loopback::Endpoint& own = core_->endpoint(rank);
  const std::lock_guard lock(own.mutex);
  return own.alive;
}

bool LoopbackWorld::deliver_one(SeededRandom& random) { return core_->deliver_one(random); }
std::size_t LoopbackWorld::in_flight_count() const { return core_->in_flight_count(); }
double LoopbackWorld::now() const { return core_->now(); }
void LoopbackWorld::advance_to(double seconds) { core_->advance_to(seconds); }
void LoopbackWorld::take_roused(std::vector<int>& ranks) { core_->take_roused(ranks); }

}  // namespace sparcl::transport
