#pragma once
// The port of a publisher, or of a replica that passes updates on: takes connections and serves its
// sessions from one thread. Whatever foreign programs send there costs a bounded number of
// descriptors for a bounded time.

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/replication/memory_pieces.hpp"
#include "src/replication/refusal_flood.hpp"
#include "src/replication/session.hpp"

namespace sparcl::replication {

class Server {
 public:
  static constexpr std::size_t kMaxUnauthenticated =
      64;  // with those that wait for an answer to go out

  // So many replicas can be served that a quarter of the descriptors of this process is left for
  // others, and 64 at least.
  static std::size_t max_replicas();

  // context outlives the server.
  Server(net::Socket listener, const SessionContext& context);

  // For poll(), in this order; then step() with the same entries.
  void add_entries(std::vector<pollfd>& entries, double now) const;
  void step(std::span<const pollfd> entries, double now);
  // The store has something new, or more of what is on its way. spread_news(): each session's next
  // turn sends it.
  void publish(double now);
  void spread_news();
  // The update is of no use after all.
  void withdraw(const UpdateRef& update);
  Session* find(std::uint64_t id) const;                       // nullptr: it is over
  const SessionMachine* find_machine(std::uint64_t id) const;  // of the same
  // They are to take their updates from here again.
  void call_back(std::vector<std::uint64_t> ids);
  // When step() is due, whatever comes.
  double next_tick(double now) const;
  // Ends the session of a replica to make room for `asker`; false: none has had its time. Unproven
  // replicas end first: they have not held what they were sent here. The address with most of them
  // loses its oldest session, but first one that has asked for nothing. If there is none, the
  // address whose sessions of a second or more have more than half of all slots loses the newest of
  // these, unless it is the asker's.
  bool evict_for(const SessionMachine& asker, double now);
  // Ends an unproven session that is being sent an update that counts for the budget of peers.
  bool evict_taker();
  // Ends the largest unproven sessions until their part of the budget has room for so many bytes.
  // False: it has no room.
  bool make_room(const Session* asker, double now, std::uint64_t bytes = 0);
  // As far as it is a matter of sessions, peers are within the budget again.
  void keep_within_budget(double now);
  // The first session whose list of tensors is to be looked at; nullptr: there is none.
  Session* first_with_list() const;
  // Ends the sessions of peers whose secret is not known any more, and counts them.
  std::size_t end_revoked(const std::function<bool(int secret)>& knows);
  void end_sessions();
  void end_replicas();
  void leave();  // and takes no others

  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }

 private:
  void accept_all(double now);
  bool make_place(double now);
  static std::string host_of(const Session& session);
  bool evict_unproven(double now);
  bool evict_excess(const SessionMachine& asker, double now);
  void end_for_others(Session& session, RefusalReason reason);
  void end_backed_off(double now);
  void limit_copies(double now);
  bool copies_yield(double now);
  void take_turns(std::span<const pollfd> entries, double now);
  void count();

  net::Socket listener_;
  const SessionContext& context_;
  MemoryPieces memory_;
  SessionCounts counts_;
  CopyLimits copies_;
  RefusalFlood flood_;
  double yields_since_ = -1;  // to a version that is being encoded; -1: not now
  double yields_from_ = 0;    // the next time at the earliest
  std::vector<std::unique_ptr<Session>> sessions_;  // by their ids, as they came
  std::uint64_t last_id_ = 0;
  std::size_t first_ = 0;   // whose turn is next
  double accept_from_ = 0;  // descriptors ran out: no connection is taken before
};

}  // namespace sparcl::replication
