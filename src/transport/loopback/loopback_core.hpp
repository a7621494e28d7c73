#pragma once
// Shared by the transports of one loopback world. Locks are held one at a time and never while
// bytes are copied.

#include <memory>
#include <string>
#include <vector>

#include "src/transport/loopback/endpoint.hpp"
#include "src/transport/loopback/in_flight.hpp"
#include "src/transport/loopback/loopback_world.hpp"

namespace sparcl::transport {

class LoopbackCore {
 public:
  using Endpoint = loopback::Endpoint;
  using Letter = loopback::Letter;
  using LocalOperation = loopback::LocalOperation;

  LoopbackCore(int ranks, const LoopbackOptions& options);

  int size() const { return static_cast<int>(endpoints_.size()); }
  const LoopbackOptions& options() const { return options_; }
  const Capabilities& capabilities() const { return capabilities_; }
  bool oversubscribed() const { return oversubscribed_; }
  std::string describe(int rank) const;
  Endpoint& endpoint(int rank) const { return *endpoints_[static_cast<std::size_t>(rank)]; }

  // Gives a letter to the network; with threads it has reached the receiver on return. The bytes of
  // an eager letter are copied if they must wait.
  void submit(Letter letter);
  void submit(int to, const Signal& signal) noexcept;

  // Posts, or delivers a letter that has come already, or refuses because the peer is known to be
  // dead. In the last two cases the operation is done on return.
  void post_receive(int rank, const LocalOperation& operation);
  void withdraw_receive(int rank, const LocalOperation& operation);
  void close(int rank, Channel channel);

  // A rank that cannot be told, because there is no memory for it, gets an error from its own
  // messenger (Endpoint::has_lost).
  enum class Leave { kOrderly, kAbrupt };
  void leave(int rank, Leave how) noexcept;

  Status dead_peer_error(int peer) const;
  bool knows_dead(int rank, int peer);

  // Whether a small message is sent eagerly, and whether its send is then returned done.
  // Deterministic worlds try all combinations.
  bool sends_eagerly(std::size_t bytes);
  bool reports_later() { return options_.deterministic && random_.chance(0.5); }
  void complete(int owner, loopback::Completion completion);

  bool deliver_one(SeededRandom& random);
  SeededRandom& own_random() { return random_; }
  std::size_t in_flight_count() const { return in_flight_.count(); }
  double now() const;
  void advance_to(double seconds);
  void take_roused(std::vector<int>& ranks);

 private:
  void dispatch(loopback::Parcel parcel);
  void deliver(Letter letter);
  void deliver(int to, const Signal& signal);
  void tell_death(int to, int dead);
  void deliver_death(int to, int dead);
  template <class Tell>
  void tell_or_end(int rank, Tell&& tell) noexcept;
  loopback::Completion hand_over(const Letter& letter, const LocalOperation& receive) const;
  void drop_unfetched(int holder, int dead);
  void finish_send(const Letter& letter, Status status);
  void lose(const Letter& letter);
  void rouse(int rank, Endpoint& endpoint);

  LoopbackOptions options_;
  Capabilities capabilities_;
  bool oversubscribed_ = false;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;

  // Deterministic worlds only, on their one thread.
  SeededRandom random_;
  loopback::InFlight in_flight_;
  double virtual_now_ = 0;
  std::vector<int> roused_;
};

}  // namespace sparcl::transport
