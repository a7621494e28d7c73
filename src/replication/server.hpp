#pragma once
// A publisher's port: takes connections and serves its sessions from one thread. Whatever foreign programs send there costs a
// bounded number of descriptors for a bounded time.

#include <poll.h>

#include <memory>
#include <vector>

#include "src/replication/session.hpp"

namespace sparcl::replication {

class Server {
 public:
  static constexpr std::size_t kMostStrangers = 64;

  // context outlives the server.
  Server(Socket listener, const SessionContext& context) : listener_(std::move(listener)), context_(context) {}

  // For poll(), in this order; then step() with the same entries.
  void add_entries(std::vector<pollfd>& entries, double now) const;
  void step(std::span<const pollfd> entries, double now);
  // The store has something new.
  void publish(double now);
  // When step() is due, whatever comes.
  double next_tick(double now) const;
  void leave();

  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }

 private:
  void accept_all(double now);
  bool make_room(double now);

  Socket listener_;
  const SessionContext& context_;
  std::vector<std::unique_ptr<Session>> sessions_;
  double accept_from_ = 0;  // descriptors ran out: no connection is taken before
};

}  // namespace sparcl::replication
