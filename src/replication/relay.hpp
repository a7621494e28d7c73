#pragma once
// Passes on to other replicas what this one is sent, while it comes. The subscriber's thread runs
// it.

#include <memory>

#include "src/replication/held_giver.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/server.hpp"

namespace sparcl::replication {

class Relay {
 public:
  struct Options {
    std::string model_id;
    double silence_s = 5;
    bool shares_memory = false;
    std::uint64_t keep_bytes =
        0;  // of updates, for those that are behind. The last one is kept whatever it has
    std::uint64_t peer_bytes = 0;  // PeerBudget::limit_for()
    bool is_secure = false;        // connections need a ticket of the publisher's
    bool gives_bytes = false;      // all bytes of what is held, to replicas that have none
  };
  Relay(const ReplicatedState& state, const Options& options);

  // Takes a port of this interface, unless there is one already. If that fails, no replica can take
  // updates from here.
  void open(const net::NetAddress& interface);
  std::uint16_t port() const { return address_.port; }  // 0: none
  // Says goodbye to its children, and accepts no more.
  void close();
  void set_epoch(std::uint64_t epoch) { context_.epoch = epoch; }
  void set_key(const RelayKey& key) { *key_ = key; }

  // This replica is being sent it: it is offered to the others, and goes on as its bytes come
  // (publish()).
  void pass_on(UpdateRef update);
  void publish(double now);
  // It is of no use after all, or another one comes in its stead.
  void withdraw(const UpdateRef& update);
  // Nothing that was passed on is of use.
  void start_over();
  // The updates that are whole were applied here.
  void forget();

  // This replica holds it, whether or not an update has led there.
  void hold(const HeldVersion& held) {
    store_.hold(held);
    giver_.hold(held);
  }

  // A replica waits for all bytes of what is held.
  bool wants_to_give() const { return giver_.is_wanted(); }
  // Makes a piece of them (HeldGiver::work()). False: the arrays do not hold `held`.
  bool give(const ReplicatedState& state, const HeldVersion& held, double now);

  // As a server's.
  void add_entries(std::vector<pollfd>& entries, double now) const;
  void step(std::span<const pollfd> entries, double now);

  int children() const;
  // When step() is due, whatever comes.
  double next_tick(double now) const {
    return server_ != nullptr ? server_->next_tick(now) : now + 1;
  }

 private:
  std::string report() const;
  void turn_away(double now);

  bool is_secure_;
  std::shared_ptr<std::optional<RelayKey>> key_ = std::make_shared<std::optional<RelayKey>>();
  SessionContext context_;
  UpdateStore store_;
  HeldGiver giver_;
  std::shared_ptr<SessionFeed> feed_ = std::make_shared<SessionFeed>();
  net::NetAddress address_;
  std::unique_ptr<Server> server_;
};

}  // namespace sparcl::replication
