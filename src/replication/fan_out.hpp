#pragma once
// Who takes updates from whom. The publisher sends each update to few replicas, these pass it on while it comes, and so on: in
// chains, or in a tree of a given degree. Its own upload grows with that degree and not with the number of replicas.
//
// This is the publisher's plan alone: what it tells a replica to do (PARENT), and what that one says became of it (ORPHAN). A
// replica whose parent dies, falls silent or is behind is served by the publisher at once, from the byte at which it stands, and is
// placed anew when it is current. One that holds those below it up becomes a leaf.
//
// Replicas of one machine share memory: one of them gets updates over the network, the others from that one.

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/transport/net_address.hpp"

namespace sparcl::replication {

class FanOut {
 public:
  using Id = std::uint64_t;  // of a replica: from 1
  static constexpr int kChainLength = 32;

  // degree: replicas that each one, and the publisher, sends to; 0: chains of kChainLength at most.
  explicit FanOut(int degree) : degree_(degree) {}

  // Served by the publisher. passes_on: whether others can take updates from it. machine: its address, whatever the port, if it
  // shares memory with others there. gives_bytes: others can also take from it what it holds.
  void join(Id id, bool passes_on, const std::optional<NetAddress>& machine = {}, bool gives_bytes = false);
  void leave(Id id);
  // It takes updates from the publisher again.
  enum class Blame : std::uint8_t { kNobody, kReplica, kParent };  // it was called back; it was too far behind; the parent failed
  void come_back(Id id, Blame blame, double now);

  // What a replica may be given by one that holds it: all bytes, or a repair. Heeded once: where that failed the publisher gives
  // it.
  struct Given {
    std::uint64_t least_version = 0;  // that the other one holds; 0: it may not
    bool is_repair = false;
  };
  // Where a replica that the publisher serves is to take updates from: nothing where it stays. anchor: the version of the anchor
  // that it needs, or 0: then those come into question that are being sent the same one, or hold what they can give.
  std::optional<Id> place(Id id, std::uint64_t anchor, double now, const Given& given);
  std::optional<Id> place(Id id, std::uint64_t anchor, double now) { return place(id, anchor, now, Given()); }

  // The publisher begins to send `bytes` to it, has sent them, and hears that they are all there.
  void begin(Id id, std::uint64_t version, std::uint64_t bytes, bool is_anchor, double now);
  void sent(Id id, double now);
  void staged(Id id, std::uint64_t version, double now);
  // By its own word, of this publisher's versions.
  void holds(Id id, std::uint64_t version);
  // Whether it takes no more until it has applied what it has.
  void set_full(Id id, bool is_full);
  // The publisher has had `version` for it since then, and it does not take it.
  void held_up(Id id, std::uint64_t version, double now);

  // Those who are behind what they take from, and those that take from them: they are to come back.
  std::vector<Id> relieve(double now);

  bool has_staged() const { return has_staged_; }  // any of them, ever

  Id parent(Id id) const;  // kPublisher: that one
  int degree() const;      // of the publisher, now
  static constexpr Id kPublisher = 0;

 private:
  static constexpr Id kNobody = UINT64_MAX;  // the parent has left; it will come back

  struct Replica {
    Id parent = kPublisher;
    bool passes_on = false;
    std::optional<NetAddress> machine;
    bool gives_bytes = false;
    bool is_full = false;
    bool is_given = false;  // what its parent holds: it is late with nothing until it has that
    std::uint64_t held = 0;
    std::uint64_t staged = 0;
    std::uint64_t anchor = 0;  // version of the one that it is being sent
    // What its source has whole, and since when it should have it, too.
    std::uint64_t due = 0;
    double due_since = 0;
    double leaf_until = 0;  // nobody takes from it
    double relieved_at = -1e9;
    double direct_until = 0;  // it is not placed
    int failures = 0;         // of its parents, one after the other
    // What the publisher sends it, or has sent it.
    std::uint64_t sending = 0;
    std::uint64_t sending_bytes = 0;
    double sending_since = 0;
    double rate = 0;  // bytes a second, from the publisher until they are staged; 0: not known
  };

  static bool has_for(const Replica& other, std::uint64_t anchor, const Given& given);
  bool stays_direct(const Replica& replica, double now) const { return now < replica.leaf_until || now < replica.direct_until; }
  bool is_slow(const Replica& replica) const;
  int uploads(Id id) const;  // of its machine, to others
  static bool are_neighbours(const Replica& one, const Replica& other) { return one.machine && one.machine == other.machine; }
  std::size_t machines() const;
  int most_uploads() const { return degree_ > 0 ? degree_ : 1; }
  // Steps up to the publisher; nothing where the way leads over `below`, or to nobody.
  std::optional<int> depth(Id id, Id below) const;
  void leave_alone(Id id, double now, std::vector<Id>& moved);
  static void make_due(Replica& replica, std::uint64_t version, double since);
  void measure(Replica& replica, double now);

  int degree_;
  bool has_staged_ = false;
  std::map<Id, Replica> replicas_;
  double middle_rate_ = 0;  // of those known; 0: of too few
};

}  // namespace sparcl::replication
