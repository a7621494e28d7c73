// How FanOut keeps what it knows about all replicas, so that no question needs to look at all of
// them.

#include <algorithm>

#include "src/replication/fan_out.hpp"

namespace sparcl::replication {

// Both ends, and all below it.
void FanOut::move(Replica& replica, Id to) {
  end_giving(replica);
  if (Replica* const before = find(replica.parent); before != nullptr) {
    before->children.erase(replica.id);
    if (before->group != replica.group) count_upload(*before->group, -1);
  }
  replica.parent = to;
  if (Replica* const after = find(to); after != nullptr) {
    after->children[replica.id] = &replica;
    if (after->group != replica.group) count_upload(*after->group, 1);
  }
  set_depths(replica);
  list_anew(replica);
}

void FanOut::count_upload(Group& group, int change) {
  const bool was_free = group.uploads < max_uploads();
  group.uploads += change;
  if (was_free == (group.uploads < max_uploads())) return;
  for (const auto& [id, member] : group.members) list_anew(*member);
}

// Most of what is below one that is moved has no room for others: its place is listed nowhere.
void FanOut::set_depths(Replica& top) {
  const Replica* const above = find(top.parent);
  std::vector<std::pair<Replica*, const Replica*>> left{{&top, above}};
  while (!left.empty()) {
    const auto [replica, parent] = left.back();
    left.pop_back();
    ++looked_at_;
    const bool is_direct = replica->parent == kPublisher;
    const int depth = is_direct                                 ? 1
                      : parent == nullptr || parent->depth == 0 ? 0
                                                                : parent->depth + 1;
    const Id root = is_direct ? replica->id : parent == nullptr ? kNobody : parent->root;
    if (depth == replica->depth && root == replica->root) continue;
    const bool is_listed =
        replica->listed.is_near || replica->listed.is_far || (depth == 0) != (replica->depth == 0);
    replica->depth = depth;
    replica->root = root;
    if (is_listed) list_anew(*replica);
    for (const auto& [id, child] : replica->children) left.emplace_back(child, replica);
  }
}

void FanOut::ban(Replica& replica, double Replica::*until, double end) {
  replica.*until = end;
  wakes_.push({end, replica.id});
  list_anew(replica);
}

// Replicas whose listing has changed only because of the time.
void FanOut::advance(double now) {
  clock_ = std::max(clock_, now);
  while (!wakes_.empty() && wakes_.top().first <= clock_) {
    Replica* const replica = find(wakes_.top().second);
    wakes_.pop();
    if (replica != nullptr) list_anew(*replica);
  }
}

FanOut::Listing FanOut::listing_of(const Replica& replica) const {
  using Stock = ParentIndex::Stock;
  Listing listing;
  listing.stays = replica.parent == kPublisher && !stays_direct(replica) && !is_slow(replica);
  if (!replica.passes_on || is_slow(replica) || clock_ < replica.leaf_until || replica.depth == 0)
    return listing;
  if (replica.given != 0) return listing;  // it has nothing yet that others may have
  if (replica.gives && replica.held != 0 && !replica.is_giving)
    listing.giving = Stock{Stock::Kind::kHeld, replica.held};
  if (replica.anchor != 0) {
    listing.stock = Stock{Stock::Kind::kAnchor, replica.anchor};
  } else if (replica.staged > 0) {
    listing.stock = Stock{Stock::Kind::kNext, 0};
  }
  listing.is_near = replica.group->is_machine;
  listing.is_far = replica.group->uploads < max_uploads();
  const bool has_any = listing.stock || listing.giving;
  if (!has_any || (!listing.is_near && !listing.is_far)) {
    Listing none;
    none.stays = listing.stays;
    return none;
  }
  listing.place = {replica.depth, replica.id};
  return listing;
}

void FanOut::list_anew(Replica& replica) {
  ++looked_at_;
  const Listing listing = listing_of(replica);
  if (listing == replica.listed) return;
  list(replica, false);
  replica.listed = listing;
  list(replica, true);
}

void FanOut::list(const Replica& replica, bool is_listed) {
  const Listing& listing = replica.listed;
  const std::pair key(!replica.passes_on, replica.id);
  if (listing.stays && is_listed) staying_.insert(key);
  if (listing.stays && !is_listed) staying_.erase(key);
  const auto add = [&](ParentIndex& parents, const ParentIndex::Stock& stock) {
    is_listed ? parents.add(stock, listing.place) : parents.remove(stock, listing.place);
  };
  for (const auto& stock : {listing.stock, listing.giving}) {
    if (stock && listing.is_near) add(replica.group->parents, *stock);
    if (stock && listing.is_far) add(parents_, *stock);
  }
}

}  // namespace sparcl::replication
