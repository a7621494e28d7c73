#pragma once
// Who takes updates from whom, by the rules alone: each question looks at all replicas. FanOut must
// answer the same, sooner.

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "src/replication/fan_out.hpp"

namespace sparcl::replication {

class FanOutRules {
 public:
  using Id = FanOut::Id;
  using Blame = FanOut::Blame;
  static constexpr Id kPublisher = FanOut::kPublisher;

  explicit FanOutRules(int degree) : degree_(degree) {}

 private:
  static constexpr double kSlow = 1;         // behind what it takes from
  static constexpr double kHadIt = 0.5;      // less is no time to pass it on
  static constexpr double kLeafFor = 30;     // after it was slow, or left its children alone
  static constexpr double kFirstDirect = 1;  // after a parent failed; twice as long each time
  static constexpr double kLastDirect = 64;
  static constexpr double kForever = 1e18;
  static constexpr double kAwaitedPart = 0.25;
  static constexpr double kAssumedRate = 1 << 20;
  static constexpr double kSlowPart = 0.25;        // of the rate in the middle
  static constexpr std::size_t kTellingRates = 3;  // fewer have no middle
  static constexpr std::uint64_t kTellingBytes = std::uint64_t{1}
                                                 << 20;  // fewer do not tell how fast a link is
  static constexpr Id kNobody = UINT64_MAX;

  struct Replica {
    Id parent = kPublisher;
    bool passes_on = false;
    std::optional<net::NetAddress> machine;
    std::optional<net::NetAddress> from;
    bool is_full = false;
    std::uint64_t staged = 0;
    std::uint64_t anchor = 0;  // version of the one that it is being sent
    // What its source has whole, and since when it should have it, too.
    std::uint64_t due = 0;
    double due_since = 0;
    std::uint64_t awaited = 0;  // from its parent, until then
    double awaited_until = 0;
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

  bool stays_direct(const Replica& replica, double now) const {
    return now < replica.leaf_until || now < replica.direct_until;
  }
  static bool are_neighbours(const Replica& one, const Replica& other) {
    return one.machine && one.machine == other.machine;
  }
  int max_uploads() const { return degree_ > 0 ? degree_ : 1; }

  int degree_;
  std::map<Id, Replica> replicas_;
  double middle_rate_ = 0;
  std::map<std::array<std::byte, 16>, double> expelled_;

 public:
  void join(Id id, bool passes_on, const std::optional<net::NetAddress>& machine,
            const std::optional<net::NetAddress>& from) {
    Replica replica;
    replica.passes_on = passes_on;
    replica.from = from;
    if (from && expelled_.contains(from->ip)) replica.leaf_until = expelled_.at(from->ip);
    replica.machine = machine;
    if (machine) replica.machine->port = 0;
    replicas_[id] = replica;
  }

  void leave(Id id) {
    if (replicas_.erase(id) == 0) return;
    for (auto& [other, replica] : replicas_) {
      if (replica.parent == id) replica.parent = kNobody;
    }
  }

  static void pause(Replica& replica, double now) {
    if (now < replica.direct_until) return;
    replica.direct_until =
        now + std::min(kLastDirect,
                       kFirstDirect * static_cast<double>(1 << std::min(replica.failures, 10)));
    ++replica.failures;
  }

  std::optional<Id> come_back(Id id, Blame blame, double now) {
    const auto found = replicas_.find(id);
    if (found == replicas_.end()) return {};
    Replica& replica = found->second;
    const auto parent = replicas_.find(replica.parent);
    replica.parent = kPublisher;
    if (blame == Blame::kNobody) return {};
    pause(replica, now);
    if (parent == replicas_.end() || blame == Blame::kReplica) return {};
    Replica& other = parent->second;
    const bool has_it = other.staged > replica.staged && replica.staged < replica.due &&
                        now - replica.due_since >= kHadIt;
    if (blame == Blame::kFalseParent || (blame == Blame::kIdleParent && has_it)) {
      if (other.leaf_until >= kForever) return {};
      other.leaf_until = kForever;
      if (other.from) expelled_[other.from->ip] = now + kLeafFor;
      return parent->first;
    }
    other.leaf_until = std::max(other.leaf_until, now + kLeafFor);
    return {};
  }

  // Those that have none for themselves count as if they had.
  std::size_t machines() const {
    std::size_t count = 0;
    for (auto each = replicas_.begin(); each != replicas_.end(); ++each) {
      count += std::none_of(replicas_.begin(), each, [&](const auto& other) {
        return are_neighbours(each->second, other.second);
      });
    }
    return count;
  }

  int degree() const {
    if (degree_ > 0) return degree_;
    return static_cast<int>((machines() + FanOut::kChainLength - 1) / FanOut::kChainLength);
  }

  int uploads(Id id) const {
    const Replica& own = replicas_.at(id);
    return static_cast<int>(
        std::count_if(replicas_.begin(), replicas_.end(), [&](const auto& each) {
          const auto parent = replicas_.find(each.second.parent);
          if (parent == replicas_.end() || are_neighbours(each.second, own)) return false;
          return parent->first == id || are_neighbours(parent->second, own);
        }));
  }

  Id parent(Id id) const {
    const auto found = replicas_.find(id);
    return found == replicas_.end() ? kNobody : found->second.parent;
  }

  std::optional<int> depth(Id id, Id below) const {
    int steps = 1;
    for (Id at = id; at != below; ++steps) {
      const auto found = replicas_.find(at);
      if (found == replicas_.end()) return {};
      if (found->second.parent == kPublisher) return steps;
      at = found->second.parent;
    }
    return {};
  }

  // What one needs that is placed with it.
  static bool has_for(const Replica& other, std::uint64_t anchor) {
    return anchor == 0 ? other.anchor == 0 && other.staged > 0 : other.anchor == anchor;
  }

  std::optional<Id> assign_parent(Id id, std::uint64_t anchor, double now) {
    const auto own = replicas_.find(id);
    if (own == replicas_.end() || own->second.parent != kPublisher ||
        stays_direct(own->second, now))
      return {};
    // Those who pass on stay before those who do not, and who was here first.
    const auto stays_before = [&](const auto& each) {
      const auto& [other, replica] = each;
      if (other == id || replica.parent != kPublisher || stays_direct(replica, now) ||
          is_slow(replica))
        return false;
      return replica.passes_on != own->second.passes_on ? replica.passes_on : other < id;
    };
    const bool is_needed_here =
        std::count_if(replicas_.begin(), replicas_.end(), stays_before) < degree();

    std::optional<Id> best;
    std::pair<bool, int> least;  // not of its machine, steps up
    for (const auto& [other, replica] : replicas_) {
      if (other == id || !replica.passes_on || !has_for(replica, anchor)) continue;
      if (is_slow(replica) || now < replica.leaf_until) continue;
      const bool is_far = !are_neighbours(replica, own->second);
      if (is_far && (is_needed_here || uploads(other) >= max_uploads())) continue;
      // That one will be placed.
      if (!is_far && other > id && replica.parent == kPublisher && own->second.passes_on) continue;
      const std::optional<int> steps = depth(other, id);
      if (!steps || (best && std::pair(is_far, *steps) >= least)) continue;
      best = other;
      least = {is_far, *steps};
    }
    if (!best) return {};
    own->second.parent = *best;
    own->second.anchor = anchor;
    if (const std::uint64_t has = replicas_.at(*best).staged;
        anchor == 0 && has > own->second.staged)
      make_due(own->second, has, now);
    return best;
  }

  void awaits(Id id, std::uint64_t version, std::uint64_t bytes, double now) {
    const auto found = replicas_.find(id);
    if (found == replicas_.end() || found->second.staged < found->second.awaited) return;
    Replica& replica = found->second;
    const double rate = replica.rate > 0   ? replica.rate
                        : middle_rate_ > 0 ? middle_rate_
                                           : kAssumedRate;
    const std::uint64_t steps = static_cast<std::uint64_t>(depth(id, kNobody).value_or(0));
    const std::uint64_t all =
        bytes + steps * std::min<std::uint64_t>(bytes, std::uint64_t{1} << 20);
    replica.awaited = version;
    replica.awaited_until = now + kSlow + static_cast<double>(all) / (kAwaitedPart * rate);
  }

  void make_due(Replica& replica, std::uint64_t version, double since) {
    if (replica.staged < replica.due) return;  // it is late with an earlier one
    replica.due = version;
    replica.due_since = since;
  }

  void begin(Id id, std::uint64_t version, std::uint64_t bytes, bool is_anchor, double now) {
    const auto found = replicas_.find(id);
    if (found == replicas_.end()) return;
    Replica& replica = found->second;
    replica.anchor = is_anchor ? version : 0;
    replica.sending = version;
    replica.sending_bytes = bytes;
    replica.sending_since = now;
  }

  void sent(Id id, double now) {
    const auto found = replicas_.find(id);
    if (found == replicas_.end()) return;
    make_due(found->second, found->second.sending, now);
  }

  void measure(Replica& replica, double now) {
    if (replica.sending_bytes < kTellingBytes) return;
    replica.rate =
        static_cast<double>(replica.sending_bytes) / std::max(now - replica.sending_since, 1e-3);
    replica.sending_bytes = 0;
    std::vector<double> known;
    for (const auto& [id, each] : replicas_) {
      if (each.rate > 0) known.push_back(each.rate);
    }
    const auto middle = known.begin() + static_cast<std::ptrdiff_t>(known.size() / 2);
    std::nth_element(known.begin(), middle, known.end());
    middle_rate_ = known.size() < kTellingRates ? 0 : *middle;
  }

  bool is_slow(const Replica& replica) const {
    return replica.rate > 0 && replica.rate < kSlowPart * middle_rate_;
  }

  void staged(Id id, std::uint64_t version, double now) {
    const auto found = replicas_.find(id);
    if (found == replicas_.end()) return;
    Replica& replica = found->second;
    replica.staged = std::max(replica.staged, version);
    if (replica.parent == kPublisher && version == replica.sending) measure(replica, now);
    if (replica.staged >= replica.anchor) replica.anchor = 0;
    if (replica.parent != kPublisher && replica.parent != kNobody) replica.failures = 0;
    for (auto& [other, child] : replicas_) {
      if (child.parent == id && child.staged < version) make_due(child, version, now);
    }
  }

  void set_full(Id id, bool is_full) {
    if (const auto found = replicas_.find(id); found != replicas_.end())
      found->second.is_full = is_full;
  }

  void held_up(Id id, std::uint64_t version, double now) {
    if (const auto found = replicas_.find(id); found != replicas_.end())
      make_due(found->second, version, now);
  }

  // Those below it that could take more. Others are full themselves: what those below them wait for
  // comes no sooner.
  void leave_alone(Id id, double now, std::vector<Id>& moved) {
    for (auto& [other, child] : replicas_) {
      if (child.parent != id) continue;
      if (!child.is_full) {
        moved.push_back(other);
        continue;
      }
      const std::size_t before = moved.size();
      leave_alone(other, now, moved);
      if (moved.size() > before) child.leaf_until = std::max(child.leaf_until, now + kLeafFor);
    }
  }

  std::vector<Id> relieve(double now) {
    std::vector<Id> moved;
    for (auto& [id, replica] : replicas_) {
      const bool is_starved = replica.parent != kPublisher && replica.staged < replica.awaited &&
                              now >= replica.awaited_until;
      const bool is_late =
          (replica.staged < replica.due && now - replica.due_since >= kSlow) || is_starved;
      if ((!is_late && !is_slow(replica)) || now - replica.relieved_at < kSlow) continue;
      const std::size_t before = moved.size();
      leave_alone(id, now, moved);
      // It may be its parent's fault.
      if (is_late && !replica.is_full && replicas_.contains(replica.parent)) {
        moved.push_back(id);
        pause(replica, now);
      }
      if (moved.size() == before) continue;
      replica.relieved_at = now;
      replica.leaf_until = std::max(replica.leaf_until, now + kLeafFor);
    }
    return moved;
  }
};

}  // namespace sparcl::replication
