#include "src/replication/fan_out.hpp"

#include <algorithm>
#include <utility>

namespace sparcl::replication {
namespace {

// Heuristics; in seconds.
constexpr double kSlow = 1;  // behind what it takes from
constexpr double kHadIt =
    0.5;  // a parent that has had a version for less may not have passed it on yet
constexpr double kLeafFor = 30;     // after it was slow, or left its children alone
constexpr double kFirstDirect = 1;  // after a parent failed; twice as long each time
constexpr double kLastDirect = 64;
constexpr double kSlowPart = 0.25;  // of the rate in the middle
constexpr double kForever = 1e18;
constexpr double kAwaitedPart = 0.25;  // of the rate at which the publisher itself gave something:
                                       // as fast is expected of a parent
constexpr double kMakingRate = 128 << 20;  // bytes a second, of all bytes that a replica makes
constexpr double kAssumedRate = 1 << 20;   // bytes a second, where that is not known
constexpr std::size_t kMaxExpelled = 1024;
constexpr std::size_t kTellingRates = 3;  // fewer have no middle
constexpr std::uint64_t kTellingBytes = std::uint64_t{1}
                                        << 20;  // fewer do not tell how fast a link is

}  // namespace

FanOut::Replica* FanOut::find(Id id) {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? nullptr : &found->second;
}

void FanOut::join(Id id, bool passes_on, const std::optional<net::NetAddress>& machine,
                  const std::optional<net::NetAddress>& from, bool gives) {
  leave(id);
  Replica& replica = replicas_[id];
  replica.id = replica.root = id;
  replica.passes_on = passes_on;
  replica.gives = gives;
  replica.from = from;
  replica.key = machine ? GroupKey{machine->family, machine->ip, 0}
                        : GroupKey{net::NetAddress::Family::kIpv4, {}, id};
  replica.group = &groups_[replica.key];
  replica.group->is_machine = machine.has_value();
  replica.group->members[id] = &replica;
  if (const auto known = from ? expelled_.find(from->ip) : expelled_.end();
      known != expelled_.end()) {
    ban(replica, &Replica::leaf_until, known->second);
  }
  list_anew(replica);
}

void FanOut::leave(Id id) {
  Replica* const replica = find(id);
  if (replica == nullptr) return;
  while (!replica->children.empty()) move(*replica->children.begin()->second, kNobody);
  move(*replica, kNobody);
  if (replica->rate > 0) rates_.erase({replica->rate, id});
  replica->group->members.erase(id);
  if (replica->group->members.empty()) groups_.erase(replica->key);
  replicas_.erase(id);
}

// It is served by the publisher itself for a while: each time after a parent failed it twice as
// long.
void FanOut::pause(Replica& replica, double now) {
  if (now < replica.direct_until) return;
  const double seconds = std::min(
      kLastDirect, kFirstDirect * static_cast<double>(1 << std::min(replica.failures, 10)));
  ban(replica, &Replica::direct_until, now + seconds);
  ++replica.failures;
}

void FanOut::expel(Replica& parent, double now) {
  ban(parent, &Replica::leaf_until, kForever);
  if (!parent.from) return;
  std::erase_if(expelled_, [&](const auto& each) { return each.second <= now; });
  if (expelled_.size() < kMaxExpelled) expelled_[parent.from->ip] = now + kLeafFor;
}

std::optional<FanOut::Id> FanOut::come_back(Id id, Blame blame, double now) {
  Replica* const replica = find(id);
  if (replica == nullptr) return {};
  Replica* const parent = find(replica->parent);
  move(*replica, kPublisher);
  if (blame == Blame::kNobody) return {};
  pause(*replica, now);
  if (parent == nullptr || blame == Blame::kReplica) return {};
  // One that has nothing itself, or has got it only now, is no worse than its own parent.
  const bool has_it = parent->staged > replica->staged && replica->staged < replica->due &&
                      now - replica->due_since >= kHadIt;
  if (blame == Blame::kFalseParent || (blame == Blame::kIdleParent && has_it)) {
    if (is_expelled(parent->id)) return {};
    expel(*parent, now);
    return parent->id;
  }
  ban(*parent, &Replica::leaf_until, std::max(parent->leaf_until, now + kLeafFor));
  return {};
}

// Those that have none for themselves count as if they had.
int FanOut::degree() const {
  if (degree_ > 0) return degree_;
  return static_cast<int>((groups_.size() + kChainLength - 1) / kChainLength);
}

bool FanOut::is_expelled(Id id) const {
  const auto found = replicas_.find(id);
  return found != replicas_.end() && found->second.leaf_until >= kForever;
}

FanOut::Id FanOut::parent(Id id) const {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? kNobody : found->second.parent;
}

// Replicas that pass on stay before replicas that do not, then the older ones. True: fewer than the
// degree are before it.
bool FanOut::is_needed_here(const Replica& own) {
  staying_.set_rank(static_cast<std::size_t>(degree() - 1));
  const auto last = staying_.at_rank();
  return !last || *last >= std::pair(!own.passes_on, own.id);
}

// One of its machine, else the one nearest to the publisher.
std::optional<FanOut::Id> FanOut::find_parent(const Replica& own,
                                              const ParentIndex::Stock& wanted) {
  using Answer = ParentIndex::Answer;
  const auto of_its_machine = [&](const ParentIndex::Place& place) {
    ++looked_at_;
    if (place.depth == 1 && place.id > own.id && own.passes_on)
      return Answer::kSkipDepth;  // that one will be placed
    return replicas_.at(place.id).root == own.id ? Answer::kSkip : Answer::kTake;
  };
  const auto of_another = [&](const ParentIndex::Place& place) {
    ++looked_at_;
    const Replica& other = replicas_.at(place.id);
    return other.root == own.id || other.group == own.group ? Answer::kSkip : Answer::kTake;
  };
  std::optional<ParentIndex::Place> best = own.group->parents.first(wanted, of_its_machine);
  if (!best && !is_needed_here(own)) best = parents_.first(wanted, of_another);
  return best ? std::optional(best->id) : std::nullopt;
}

// If a giver has failed, the publisher itself gives all bytes.
std::optional<FanOut::Id> FanOut::assign_parent(Id id, std::uint64_t anchor, double now,
                                                std::span<const std::uint64_t> givable) {
  using Kind = ParentIndex::Stock::Kind;
  advance(now);
  Replica* const own = find(id);
  if (own == nullptr || own->parent != kPublisher || stays_direct(*own)) return {};
  std::optional<Id> best = find_parent(*own, {anchor == 0 ? Kind::kNext : Kind::kAnchor, anchor});
  std::uint64_t given = 0;
  if (own->failures > 0) givable = {};
  for (auto each = givable.begin(); !best && each != givable.end(); ++each) {
    given = *each;
    best = find_parent(*own, {Kind::kHeld, given});
  }
  if (!best) return {};
  own->anchor = given == 0 ? anchor : 0;  // what is given is passed on to no other replica
  move(*own, *best);
  if (given != 0) {
    own->given = given;
    own->due = 0;
    replicas_.at(*best).is_giving = true;
    list_anew(*own);
    list_anew(replicas_.at(*best));
    return best;
  }
  if (const std::uint64_t has = replicas_.at(*best).staged; anchor == 0 && has > own->staged)
    make_due(*own, has, now);
  return best;
}

// Each replica of a chain passes a leaf on once the leaf is whole.
void FanOut::awaits(Id id, std::uint64_t version, std::uint64_t bytes, double now) {
  Replica* const replica = find(id);
  if (replica == nullptr || replica->staged < replica->awaited) return;  // it awaits an earlier one
  const std::uint64_t leaf = std::min<std::uint64_t>(bytes, kTellingBytes);
  replica->awaited = version;
  replica->awaited_until =
      now + seconds_for(*replica, bytes + leaf * static_cast<std::uint64_t>(replica->depth));
}

// Until so many bytes are there, from a replica.
double FanOut::seconds_for(const Replica& replica, std::uint64_t bytes) const {
  const double known = replica.rate > 0   ? replica.rate
                       : middle_rate_ > 0 ? middle_rate_
                                          : kAssumedRate;
  return kSlow + static_cast<double>(bytes) / (kAwaitedPart * known);
}

// --- all bytes of a version that a replica holds ---

std::uint64_t FanOut::given(Id id) const {
  const auto found = replicas_.find(id);
  return found == replicas_.end() ? 0 : found->second.given;
}

// The rate of a replica that has just come is not known: the giver's is, or the lowest of all. A
// replica leaves a giver that offers nothing by itself, and before this deadline.
void FanOut::expect_given(Id id, std::uint64_t bytes, double now) {
  Replica* const replica = find(id);
  if (replica == nullptr || replica->given == 0) return;
  Replica like;
  if (const Replica* giver = find(replica->parent); giver != nullptr) like.rate = giver->rate;
  if (like.rate == 0 && !rates_.keys().empty()) like.rate = rates_.keys().begin()->first;
  replica->awaited = replica->given;
  replica->awaited_until =
      now + kSlow + static_cast<double>(bytes) / kMakingRate + seconds_for(like, bytes);
}

void FanOut::holds(Id id, std::uint64_t version) {
  Replica* const replica = find(id);
  if (replica == nullptr || replica->held == version) return;
  replica->held = version;
  list_anew(*replica);
}

void FanOut::end_giving(Replica& child) {
  if (std::exchange(child.given, 0) == 0) return;
  Replica* const giver = find(child.parent);
  if (giver == nullptr) return;
  giver->is_giving = false;
  list_anew(*giver);
}

void FanOut::make_due(Replica& replica, std::uint64_t version, double since) {
  if (replica.staged < replica.due) return;  // it is late with an earlier one
  replica.due = version;
  replica.due_since = since;
}

void FanOut::begin(Id id, std::uint64_t version, std::uint64_t bytes, bool is_anchor, double now) {
  Replica* const replica = find(id);
  if (replica == nullptr) return;
  replica->anchor = is_anchor ? version : 0;
  replica->sending = version;
  replica->sending_bytes = bytes;
  replica->sending_since = now;
  list_anew(*replica);
}

void FanOut::sent(Id id, double now) {
  if (Replica* const replica = find(id); replica != nullptr)
    make_due(*replica, replica->sending, now);
}

double FanOut::slow_below() const { return kSlowPart * middle_rate_; }

void FanOut::measure(Replica& replica, double now) {
  if (replica.sending_bytes < kTellingBytes) return;
  if (replica.rate > 0) rates_.erase({replica.rate, replica.id});
  replica.rate =
      static_cast<double>(replica.sending_bytes) / std::max(now - replica.sending_since, 1e-3);
  replica.sending_bytes = 0;
  rates_.insert({replica.rate, replica.id});
  const std::size_t known = rates_.keys().size();
  rates_.set_rank(known / 2);
  const double before = slow_below();
  middle_rate_ = known < kTellingRates ? 0 : rates_.at_rank()->first;
  // Those that count as slow now, or do no more.
  const auto [least, most] = std::minmax({before, slow_below()});
  for (auto each = rates_.keys().lower_bound({least, 0});
       each != rates_.keys().end() && each->first < most; ++each) {
    list_anew(replicas_.at(each->second));
  }
}

void FanOut::staged(Id id, std::uint64_t version, double now) {
  has_staged_ =
      has_staged_ ||
      version != 0;  // also by one that is in no plan, as it shares memory with the publisher
  Replica* const replica = find(id);
  if (replica == nullptr) return;
  replica->staged = std::max(replica->staged, version);
  if (replica->parent == kPublisher && version == replica->sending) measure(*replica, now);
  if (replica->staged >= replica->anchor) replica->anchor = 0;
  if (replica->given != 0 && replica->staged >= replica->given) {
    end_giving(*replica);
    const Replica* const giver = find(replica->parent);
    if (giver != nullptr && giver->staged > replica->staged) make_due(*replica, giver->staged, now);
  }
  if (replica->parent != kPublisher && replica->parent != kNobody) replica->failures = 0;
  list_anew(*replica);
  for (const auto& [other, child] : replica->children) {
    ++looked_at_;
    if (child->staged < version && child->given == 0) make_due(*child, version, now);
  }
}

void FanOut::set_full(Id id, bool is_full) {
  if (Replica* const replica = find(id); replica != nullptr) replica->is_full = is_full;
}

void FanOut::held_up(Id id, std::uint64_t version, double now) {
  if (Replica* const replica = find(id); replica != nullptr) make_due(*replica, version, now);
}

// Its children that could take more. The other children are full themselves: what those below them
// wait for comes no sooner.
void FanOut::leave_alone(Replica& replica, double now, std::vector<Id>& moved) {
  if (replica.full_below_at == passes_) return;
  const std::size_t at_first = moved.size();
  for (const auto& [other, child] : replica.children) {
    ++looked_at_;
    if (!child->is_full) {
      moved.push_back(other);
      continue;
    }
    const std::size_t before = moved.size();
    leave_alone(*child, now, moved);
    if (moved.size() > before)
      ban(*child, &Replica::leaf_until, std::max(child->leaf_until, now + kLeafFor));
  }
  if (moved.size() == at_first) replica.full_below_at = passes_;
}

std::vector<FanOut::Id> FanOut::relieve(double now) {
  std::vector<Id> moved;
  ++passes_;
  for (auto& [id, replica] : replicas_) {
    const bool is_behind = replica.staged < replica.due && now - replica.due_since >= kSlow;
    const bool is_starved = replica.parent != kPublisher && replica.staged < replica.awaited &&
                            now >= replica.awaited_until;
    const bool is_late = is_behind || is_starved;
    if ((!is_late && !is_slow(replica)) || now - replica.relieved_at < kSlow) continue;
    const std::size_t before = moved.size();
    leave_alone(replica, now, moved);
    // It may be the fault of its parent, which has the version or says so. The publisher itself
    // sends the rest.
    if (is_late && !replica.is_full && replicas_.contains(replica.parent)) {
      moved.push_back(id);
      pause(replica, now);
    }
    if (moved.size() == before) continue;
    replica.relieved_at = now;
    ban(replica, &Replica::leaf_until, std::max(replica.leaf_until, now + kLeafFor));
  }
  return moved;
}

}  // namespace sparcl::replication
