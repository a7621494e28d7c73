// How a publisher serves replicas that hold parts of the model: their lists of tensors, and a feed
// for each different list.

#include <fmt/format.h>

#include <algorithm>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/replication/publisher.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kMaxFeeds = 256;    // different parts of the model
constexpr double kIdleFeedSeconds = 300;  // without a replica
constexpr double kUnprovenFeedSeconds =
    10;  // the same, of one that no replica has held a version of
constexpr const char* kNotPublished = "its tensors are not the publisher's: ";
constexpr double kStarvedSeconds = 1;  // heuristic
constexpr std::uint64_t kUnprovenEncoded =
    2;  // shards of one model have what is not split each: more than the model together
constexpr std::uint64_t kProvenEncoded =
    4;  // times the model's bytes, of parts in one publish(); heuristic
constexpr std::size_t kRefusedSchemaBytes =
    std::size_t{1} << 20;  // of a list that is too long: its sender is told so; heuristic

}  // namespace

// Updates that all replicas need, and updates of one part at a time, are always made. If no room
// comes, the session of an unproven replica that keeps an update ends.
bool Publisher::has_room_for(Feed& feed) {
  if (&feed == whole_.get() || !feed.store().newest())
    return true;  // its first version takes no memory
  if (feed.wants_next()) return has_room_for_next(feed);
  for (const Part& each : parts_) each.feed->drop_idle_anchor();
  const auto is_idle = [&](const Part& each) {
    return each.feed.get() == &feed || each.feed->update_bytes() == 0;
  };
  if (std::ranges::all_of(parts_, is_idle) || context_.budget->has_room(feed.copy_bytes())) {
    starved_since_ = -1;
    return true;
  }
  const double now = clock_.now();
  if (starved_since_ < 0) starved_since_ = now;
  if (now - starved_since_ > kStarvedSeconds && server_->evict_taker()) starved_since_ = now;
  return false;
}

// The next version of proven parts is always made. The replicas of the others start over if there
// is no room.
bool Publisher::has_room_for_next(Feed& feed) {
  const auto own =
      std::ranges::find(parts_, &feed, [](const Part& each) { return each.feed.get(); });
  const std::uint64_t bytes = std::min(whole_->store().bytes(), feed.copy_bytes());
  if (own == parts_.end() || (!own->is_proven && !context_.budget->has_room(bytes)))
    feed.start_over();
  return true;
}

// Drops the oldest idle updates of parts until peers are within the budget: first the updates of
// parts without a proven replica.
void Publisher::bound_parts() {
  if (at_work_ != nullptr || !context_.budget->is_over()) return;
  for (const Part& each : parts_) each.feed->drop_idle_anchor();
  for (const bool proven : {false, true}) {
    for (const Part& part : parts_) {
      while (part.is_proven == proven && context_.budget->is_over() && part.feed->drop_idle()) {
      }
    }
  }
}

std::vector<Publisher::FeedRef> Publisher::feeds() const {
  std::vector<FeedRef> all{whole_};
  for (const Part& part : parts_) all.push_back(part.feed);
  return all;
}

SessionFeedRef Publisher::find_feed(const Hash128& schema_hash) const {
  for (const FeedRef& feed : feeds()) {
    if (feed->session_feed().schema_hash == schema_hash)
      return SessionFeedRef(feed, &feed->session_feed());
  }
  return nullptr;
}

Status Publisher::parse_held() {
  if (!held_.empty()) return {};
  Result<model::Schema> held = model::parse_schema(state_.schema);
  if (held.ok()) held_ = std::move(*held);
  return held.status();
}

// That a list of parts of this model can have: more is not read.
std::size_t Publisher::max_schema_bytes() {
  return parse_held().ok()
             ? static_cast<std::size_t>(std::clamp<std::uint64_t>(
                   Feed::max_schema_bytes(held_), kRefusedSchemaBytes, kMaxSchemaBytes))
             : 0;
}

// A list of tensors is parsed and placed without the mutex: it may be long, and whoever likes may
// send one. publish() does not wait for that. One a turn, so that those who are served already have
// theirs.
void Publisher::look_at_list() {
  std::uint64_t id = 0;
  const std::vector<std::byte>* list = nullptr;
  Status status;
  {
    const std::lock_guard lock(mutex_);
    Session* const asker = server_->first_with_list();
    if (asker == nullptr) return;
    if (SessionFeedRef known = find_feed(asker->machine().list_hash()); known != nullptr) {
      return asker->take_feed(std::move(known), clock_.now());
    }
    id = asker->machine().id();
    list = asker->machine().list();  // this thread alone ends sessions
    status = check_list(*asker);
  }
  Result<SessionFeedRef> source = Status(Code::kOutOfMemory, "no memory for its list of tensors");
  FeedRef feed;
  try {
    SPARCL_FAILPOINT("publisher.list");
    if (status.ok()) status = make_part(*list, feed);
    if (!status.ok()) source = status;
  } catch (const std::bad_alloc&) {
  }
  const std::lock_guard lock(mutex_);
  Session* const asker = server_->find(id);
  if (asker == nullptr) return;
  if (feed != nullptr) source = add_part(std::move(feed));
  asker->take_feed(std::move(source), clock_.now());
}

Status Publisher::make_part(std::span<const std::byte> list, FeedRef& feed) const {
  Result<FeedRef> made = Feed::of_parts(issuer_, state_, held_, list,
                                        {options_.queue, options_.fan_out, context_.budget});
  if (!made.ok()) return made.status().with_prefix(kNotPublished);
  feed = std::move(*made);
  return {};
}

// Before the work. An error: the list has too many entries, or there is no room for it.
Status Publisher::check_list(const Session& asker) {
  SPARCL_RETURN_IF_ERROR(parse_held());
  SPARCL_RETURN_IF_ERROR(
      Feed::check_count(*asker.machine().list(), held_).with_prefix(kNotPublished));
  const std::uint64_t bytes = Feed::list_bytes(*asker.machine().list());
  const PeerBudget& budget = *context_.budget;
  if (!budget.has_unproven_room(bytes)) {
    std::erase_if(parts_,
                  [](const Part& part) { return !part.is_proven && part.feed.use_count() == 1; });
  }
  if (!server_->make_room(&asker, clock_.now(), bytes)) return no_room(budget);
  if (parts_.size() >= kMaxFeeds) {
    std::erase_if(parts_, [](const Part& part) { return part.feed.use_count() == 1; });  // unused
  }
  if (parts_.size() >= kMaxFeeds) {
    return Status(Code::kUnsupported,
                  fmt::format("replicas hold {} different parts of the model already", kMaxFeeds));
  }
  return {};
}

SessionFeedRef Publisher::add_part(FeedRef feed) {
  log_info("replication: parts of {} of the model's {} bytes are served", feed->tensor_bytes(),
           whole_->tensor_bytes());
  parts_.push_back({feed, clock_.now()});
  return SessionFeedRef(feed, &feed->session_feed());
}

void Publisher::drop_idle_feeds(double now) {
  if (is_encoding_) return;
  for (Part& part : parts_) {
    if (part.feed.use_count() > 1) part.used_at = now;
    if (!part.is_proven && part.feed->fan_out().has_staged()) {
      part.is_proven = true;
      part.feed->prove();
    }
  }
  const auto is_idle = [&](const Part& part) {
    return now - part.used_at > (part.is_proven ? kIdleFeedSeconds : kUnprovenFeedSeconds);
  };
  const auto idle =
      std::ranges::find_if(parts_, is_idle);  // one a turn: a long list takes time to end, too
  if (idle != parts_.end()) parts_.erase(idle);
}

// Parts of proven replicas first, and of all no more bytes than a few times the model's: peers must
// not make the thread work more and more for a version. The thread makes their next version. The
// others start over, and get their next version as an anchor.
void Publisher::update_parts() {
  for (const bool proven : {true, false}) {
    std::uint64_t left = whole_->tensor_bytes() * (proven ? kProvenEncoded : kUnprovenEncoded);
    for (const Part& part : parts_) {
      if (part.is_proven != proven) continue;
      const std::uint64_t bytes = part.feed->encoded_bytes();
      if (bytes > left) {
        part.feed->start_over();
        continue;
      }
      left -= bytes;
      part.feed->fall_behind();
    }
  }
}

}  // namespace sparcl::replication
