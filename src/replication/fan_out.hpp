#pragma once
// The plan of which replica takes updates from which. The publisher sends each update to few
// replicas, these pass it on while it comes, and so on: in chains, or in a tree of a given degree.
// Its own upload grows with that degree and not with the number of replicas.
//
// Only the publisher knows this plan. It sends a replica its parent (PARENT), and the replica
// answers if that fails (ORPHAN). If a parent dies, falls silent or is behind, the publisher serves
// its children at once, from the byte at which each stands. They get a new parent when they are
// current. A replica that holds up its children becomes a leaf.
//
// Each placement has a deadline for the announced bytes, whatever the parent says meanwhile. If a
// parent says that it has the bytes but does not send them, it stays expelled as a parent while it
// is connected. The same holds for a parent that sends other bytes.
//
// Replicas of one machine share memory: one replica gets updates over the network, the other
// replicas take them from it.
//
// Each event costs the logarithm of the number of replicas, and the changes that it causes. There
// may be thousands of replicas, and the publisher serves no replica meanwhile.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "src/net/net_address.hpp"
#include "src/replication/parent_index.hpp"
#include "src/replication/ranked_set.hpp"

namespace sparcl::replication {

class FanOut {
 public:
  using Id = std::uint64_t;  // of a replica: from 1
  static constexpr int kChainLength = 32;

  // degree: replicas that each one, and the publisher, sends to; 0: chains of kChainLength at most.
  explicit FanOut(int degree) : degree_(degree) {}
  FanOut(FanOut&&) = default;
  FanOut(const FanOut&) = delete;  // its rows point to each other
  FanOut& operator=(const FanOut&) = delete;

  // Served by the publisher. passes_on: whether others can take updates from it. machine: its
  // address, whatever the port, if it shares memory with others there. from: its address, where it
  // is known. gives: it also makes all bytes of what it holds for another replica.
  void join(Id id, bool passes_on, const std::optional<net::NetAddress>& machine = {},
            const std::optional<net::NetAddress>& from = {}, bool gives = false);
  void leave(Id id);
  enum class Blame : std::uint8_t {
    kNobody,       // it was called back
    kReplica,      // it was too far behind
    kParent,       // the parent failed
    kIdleParent,   // the parent gives nothing, or slowly
    kFalseParent,  // the parent gave what the publisher has not announced
  };
  // It takes updates from the publisher again. Returns the parent if no replica may take from that
  // parent any more.
  std::optional<Id> come_back(Id id, Blame blame, double now);
  // The parent for a replica that the publisher serves; nothing if the replica stays.
  // anchor: the version of the anchor that it needs, or 0. Replicas that are being sent the same
  // anchor may be its parent. So may replicas that hold one of the versions `givable`, the first
  // that is found: given() then tells which. now: not before the time of an earlier call.
  std::optional<Id> assign_parent(Id id, std::uint64_t anchor, double now,
                                  std::span<const std::uint64_t> givable = {});
  // The version that its parent makes for it, until that is staged; 0: none.
  std::uint64_t given(Id id) const;
  // It has `bytes`, and a deadline from now on: a giver that does not give is left.
  void expect_given(Id id, std::uint64_t bytes, double now);
  // It was told of an update that it is to take from its parent.
  void awaits(Id id, std::uint64_t version, std::uint64_t bytes, double now);

  // The publisher begins to send `bytes` to it, has sent them, and hears that they are all there.
  void begin(Id id, std::uint64_t version, std::uint64_t bytes, bool is_anchor, double now);
  void sent(Id id, double now);
  void staged(Id id, std::uint64_t version, double now);
  // It has acknowledged that it holds this version; 0: none.
  void holds(Id id, std::uint64_t version);
  // Whether it takes no more until it has applied what it has.
  void set_full(Id id, bool is_full);
  // The publisher has had `version` for it since then, and it does not take it.
  void held_up(Id id, std::uint64_t version, double now);

  // Replicas that are behind their parent, or whose awaited update is late, and their children. All
  // of these are to come back.
  std::vector<Id> relieve(double now);

  bool has_staged() const { return has_staged_; }  // any of them, ever

  bool is_expelled(Id id) const;  // as a parent

  Id parent(Id id) const;  // kPublisher: the publisher
  int degree() const;      // of the publisher, now
  static constexpr Id kPublisher = 0;
  std::uint64_t looked_at() const { return looked_at_; }  // rows until now: the cost

 private:
  static constexpr Id kNobody = UINT64_MAX;  // the parent has left; it will come back

  struct Replica;
  // The replicas of one machine. A replica that shares no memory is alone in its group.
  using GroupKey =
      std::tuple<net::NetAddress::Family, std::array<std::byte, 16>, Id>;  // an address, or an id
  struct Group {
    bool is_machine = false;
    std::map<Id, Replica*> members;
    int uploads = 0;      // to others
    ParentIndex parents;  // of its members
  };
  // How it is listed.
  struct Listing {
    bool stays = false;  // among those that may stay with the publisher
    bool is_near = false, is_far = false;
    ParentIndex::Place place;
    std::optional<ParentIndex::Stock> stock;
    std::optional<ParentIndex::Stock> giving;
    friend bool operator==(const Listing&, const Listing&) = default;
  };

  struct Replica {
    Id id = 0;
    Id parent = kPublisher;
    std::map<Id, Replica*> children;
    int depth = 1;  // steps up to the publisher; 0: no path to it
    Id root = 0;    // that the publisher serves, on the way up
    bool passes_on = false;
    bool gives = false;
    GroupKey key;
    Group* group = nullptr;
    std::optional<net::NetAddress> from;
    bool is_full = false;
    std::uint64_t staged = 0;
    std::uint64_t anchor = 0;  // version of the anchor that it is being sent
    std::uint64_t held = 0;
    std::uint64_t given = 0;  // version that its parent makes for it
    bool is_giving = false;   // to one of its children
    // The version that its source has whole, and since when this replica should have it, too.
    std::uint64_t due = 0;
    double due_since = 0;
    // The first announced version that its parent has not given it, and the deadline for that.
    std::uint64_t awaited = 0;
    double awaited_until = 0;
    double leaf_until = 0;  // no replica takes from it until then
    double relieved_at = -1e9;
    double direct_until = 0;  // it is not placed
    int failures = 0;         // of its parents, one after the other
    // The update that the publisher sends it, or has sent it.
    std::uint64_t sending = 0;
    std::uint64_t sending_bytes = 0;
    double sending_since = 0;
    double rate = 0;  // bytes a second, from the publisher until they are staged; 0: not known

    Listing listed;
    std::uint64_t full_below_at = 0;  // relieve(): all below it were found to be full
  };

  Replica* find(Id id);
  bool stays_direct(const Replica& replica) const {
    return clock_ < replica.leaf_until || clock_ < replica.direct_until;
  }
  bool is_slow(const Replica& replica) const {
    return replica.rate > 0 && replica.rate < slow_below();
  }
  double slow_below() const;
  int max_uploads() const { return degree_ > 0 ? degree_ : 1; }
  bool is_needed_here(const Replica& own);
  std::optional<Id> find_parent(const Replica& own, const ParentIndex::Stock& wanted);
  double seconds_for(const Replica& replica, std::uint64_t bytes) const;
  void end_giving(Replica& child);
  void pause(Replica& replica, double now);
  void expel(Replica& parent, double now);

  void move(Replica& replica, Id to);
  void count_upload(Group& group, int change);
  void set_depths(Replica& top);
  void ban(Replica& replica, double Replica::*until, double end);
  void advance(double now);
  Listing listing_of(const Replica& replica) const;
  void list_anew(Replica& replica);
  void list(const Replica& replica, bool is_listed);

  void leave_alone(Replica& replica, double now, std::vector<Id>& moved);
  static void make_due(Replica& replica, std::uint64_t version, double since);
  void measure(Replica& replica, double now);

  int degree_;
  bool has_staged_ = false;
  std::map<Id, Replica> replicas_;
  std::map<GroupKey, Group> groups_;
  ParentIndex parents_;  // that can send to other machines
  RankedSet<std::pair<bool, Id>>
      staying_;  // with the publisher, in their order: does not pass on, id
  RankedSet<std::pair<double, Id>> rates_;                // known
  double middle_rate_ = 0;                                // of those known; 0: of too few
  double clock_ = 0;                                      // the time for which the lists are true
  std::map<std::array<std::byte, 16>, double> expelled_;  // addresses of no parent until then
  using Wake = std::pair<double, Id>;                     // a replica's ban ends
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
  std::uint64_t passes_ = 0;  // of relieve()
  std::uint64_t looked_at_ = 0;
};

}  // namespace sparcl::replication
