#include "src/replication/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMessagesAtOnce = 32;    // then the others have their turn
constexpr double kStalledSeconds = 1;  // without any progress of an update
constexpr double kMinPatience = 10;    // seconds, with one that takes nothing of what it is sent

}  // namespace

Status no_room(const PeerBudget& budget) {
  return Status(
      Code::kRemoteError,
      fmt::format("there is no room for what it sends: peers take {} of {} bytes here, those that "
                  "have proven nothing {} of {}",
                  budget.used(), budget.limit(), budget.unproven(), budget.unproven_limit()));
}

Session::Session(net::Socket socket, std::optional<net::NetAddress> from, std::uint64_t id,
                 const SessionContext& context, MemoryPieces& memory, SessionCounts& counts,
                 double now)
    : context_(context),
      link_(std::move(socket)),
      from_(from),
      id_(id),
      replica_(from ? to_text(*from) : "?"),
      born_(now),
      heard_(now),
      spoke_(now),
      moved_at_(now),
      memory_(memory),
      charge_(PeerBudget::Charge::unproven(context.budget)),
      counts_(counts) {
  link_.set_room([this](std::size_t more) { return has_room(more); });
}

// Of one connection alone: what came, what is queued, what waits to be looked at.
std::uint64_t Session::memory() const {
  const std::uint64_t list = list_ ? list_->capacity() : 0;
  const std::uint64_t hashes = repair_ != nullptr ? repair_->block_hashes.size() * sizeof(Hash128) +
                                                        repair_->digests.size() * sizeof(Digest256)
                                                  : 0;
  return sizeof(Session) + link_.own_bytes() + list + hashes;
}

bool Session::has_room(std::size_t more) {
  charge_.set(memory() + more);
  const bool has_room =
      is_proven_ ? !context_.budget->is_over() : context_.budget->has_unproven_room(0);
  return has_room || (context_.make_room && context_.make_room(*this));
}

bool Session::keeps_update(bool is_lost) const {
  const auto is_kept = [&](const UpdateRef& update) {
    return update != nullptr && update->charge != nullptr && !(is_lost && store().keeps(update));
  };
  return is_kept(update_) || std::ranges::any_of(sending_, is_kept, &Sending::update);
}

// What is queued of it goes out.
void Session::let_go() {
  if (update_ != nullptr && link_.queued_bytes() > 0)
    sending_.push_back({std::move(update_), update_end_});
  update_ = nullptr;
}

const char* Session::state() const {
  if (phase_ == Phase::kStranger) return "connecting";
  if (phase_ != Phase::kReplica) return "leaving";
  if (update_ != nullptr) return is_requested_ ? "receiving" : "offered";
  if (awaits_damage() || repair_ != nullptr) return "waits for a repair";
  if (identifying_ == Identifying::kAwaitsDigest || identifying_ == Identifying::kAwaitsWord)
    return "is compared";
  if (needs_anchor_) return "waits for an anchor";
  if (awaits_composed_) return "waits for a composed update";
  if (store().newest() && held_ && *held_ == *store().newest()) return "current";
  return ahead_ > 0 ? "staged" : "behind";
}

// One that is only told something more is not read any more.
short Session::events() const {
  return phase_ == Phase::kLeaving || list_ ? static_cast<short>(link_.events() & ~POLLIN)
                                            : link_.events();
}

// Memory that runs out is this one's end, and nobody else's.
void Session::step(double now) try { step_on(now); } catch (const std::bad_alloc&) {
  drop(Status(Code::kOutOfMemory, "there is no memory to serve it"));
}

void Session::step_on(double now) {
  read(now);
  if (phase_ == Phase::kReplica) {
    offer_next(now);
    send_on(now);
  }
  if (is_over()) return;
  const std::uint64_t before = link_.bytes_sent();
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) return drop(link_.why());
  if (link_.bytes_sent() > before && is_requested_) progress_at_ = now;
  while (!sending_.empty() && sending_.front().end <= link_.bytes_sent()) sending_.pop_front();
  if (phase_ == Phase::kReplica) send_on(now);
  if (phase_ == Phase::kLeaving && link_.queued_bytes() == 0) phase_ = Phase::kOver;
  charge_.set(memory());
}

void Session::tick(double now) {
  if (is_over()) return;
  if (phase_ == Phase::kStranger || phase_ == Phase::kLeaving) {
    if (now - born_ > context_.handshake_s && phase_ == Phase::kStranger && !list_)
      drop(Status(Code::kTimeout, "it did not say who it is in time"));
    if (now - heard_ > context_.silence_s && phase_ == Phase::kLeaving) phase_ = Phase::kOver;
    return;
  }
  if (now - heard_ > context_.silence_s) {
    return drop(Status(
        Code::kTimeout,
        fmt::format("silent for {:g} s: it is stopped, or its link is cut", context_.silence_s)));
  }
  drop_where_nothing_moves(now);
  if (is_over()) return;
  note_given_by_parent();
  if (update_ != nullptr && fan_out() != nullptr && now - progress_at_ > kStalledSeconds) {
    fan_out()->held_up(id_, update_->commit.version, progress_at_);
  }
  if (now - spoke_ > alive_period_s_) {
    link_.queue(MessageType::kAlive, Alive{store().newest() ? store().newest()->version : 0});
    step(now);
  }
}

// Something that it has not taken keeps memory here.
bool Session::owes() const {
  return arrived_ < update_end_ || !pieces_out_.empty() || (update_ != nullptr && !is_requested_);
}

// Signs of life are not enough. One whose user does not come to apply what it has is offered
// nothing.
void Session::drop_where_nothing_moves(double now) {
  const std::uint64_t before = arrived_;
  arrived_ = link_.bytes_sent() -
             std::min<std::uint64_t>(unacknowledged_bytes(link_.socket()), link_.bytes_sent());
  if (!owes() || (before < update_end_ && arrived_ > before)) moved_at_ = now;
  const double patience = std::max(kMinPatience, 2 * context_.silence_s);
  if (now - moved_at_ <= patience) return;
  const bool is_offered = update_ != nullptr && !is_requested_ && arrived_ >= update_end_;
  const std::string text = is_offered
                               ? fmt::format("it does not ask for version {}, which it was offered",
                                             update_->commit.version)
                               : "it takes nothing of what it is sent";
  drop(Status(Code::kTimeout,
              fmt::format("{} for {:g} s, though it says that it is alive", text, patience)));
}

void Session::publish(double now) {
  has_news_ = false;
  if (phase_ != Phase::kReplica) return;
  confirm(now);
  announce(now);
  step(now);
}

// What it came with may be a version that was published later.
void Session::confirm(double now) {
  if (has_confirmed_ || !held_ || !held_is_vouched_ || !store().knows(*held_)) return;
  has_confirmed_ = true;
  staged_version_ = std::max(staged_version_, held_->version);
  if (fan_out() == nullptr) return;
  fan_out()->staged(id_, staged_version_, now);
}

void Session::note_given(const ReceiptBook::Given& given) {
  const bool is_news = given.version > given_.version || (given.has_bytes && !given_.has_bytes);
  if (!is_news) return;
  given_ = {std::max(given.version, given_.version), given.has_bytes || given_.has_bytes};
  context_.receipts->note(receipt_, given_);
}

// What was announced to it counts once its parent was given it; if the parent is gone, because it
// was announced.
void Session::note_given_by_parent() {
  if (!is_placed_ || fan_out() == nullptr || announced_version_ <= given_.version) return;
  const Session* parent = context_.find_session(fan_out()->parent(id_));
  const std::uint64_t by_parent =
      parent == nullptr ? announced_version_ : std::min(announced_version_, parent->given_.version);
  note_given({by_parent, by_parent > given_.version});
}

void Session::call_back() {
  if (phase_ == Phase::kReplica && is_placed_)
    link_.queue(MessageType::kParent, Parent{++placements_, {}, context_.name});
}

void Session::withdraw(const UpdateRef& update) {
  if (phase_ == Phase::kReplica && update_ == update)
    refuse(Status(Code::kRemoteError, "the update has not come whole"));
}

void Session::leave() {
  if (phase_ != Phase::kReplica) return drop(Status());
  link_.queue(MessageType::kBye, Bye());
  (void)link_.flush();
  phase_ = Phase::kOver;
}

void Session::drop(Status why) {
  if (phase_ == Phase::kOver) return;
  const Phase before = std::exchange(phase_, Phase::kOver);
  link_.close_and_forget();
  update_ = nullptr;
  repair_ = nullptr;
  list_.reset();
  sending_.clear();
  pieces_out_.clear();
  charge_.set(0);
  if (why.ok()) return;
  if (before == Phase::kReplica) tell_of_loss(why);
  if (before == Phase::kStranger) log_debug("replication: {}: {}", replica_, why.message());
}

void Session::tell_of_loss(const Status& why) {
  const bool is_gone = why.code() == Code::kRemoteError;
  const std::string text =
      fmt::format("replica {} {}: {}", replica_,
                  is_gone ? "has gone without a goodbye" : "is given up", why.message());
  if (fan_out() == nullptr && is_gone)
    return log_info("replication: {}", text);  // its publisher says so
  ++context_.counts->lost;
  warn(text, is_gone ? "replicas have gone without a goodbye" : "replicas are given up");
}

void Session::give_up_place() {
  if (source_ != nullptr && fan_out() != nullptr) fan_out()->leave(id_);
  if (!label_.name.empty()) context_.slots->give_back(label_, id_);
}

// Whatever port it comes from; before its hello, all of one address are one.
std::string Session::identity() const {
  net::NetAddress from = from_.value_or(net::NetAddress());
  from.port = 0;
  return process_.empty() ? to_text(from) : fmt::format("{} ({})", process_, to_text(from));
}

void Session::warn(const std::string& text, const std::string& kind) {
  context_.warnings->say(kind, identity(), text);
}

void Session::refuse(Status why) {
  // Nothing is published here yet: it comes again, and says so itself.
  if (!context_.closed.empty() && why.code() == Code::kRemoteError) {
    log_info("replication: {} is told to come again: {}", replica_, why.message());
  } else {
    ++context_.counts->refused;
    warn(fmt::format("{} is refused: {}", replica_, why.message()),
         fmt::format("peers are refused ({})", code_name(why.code())));
  }
  link_.queue(MessageType::kRefusal, Refusal{why.code(), why.message()});
  let_go();
  phase_ = Phase::kLeaving;
}

// The publisher will know one.
void Session::end_without_way() {
  const std::string text = fmt::format("there is no way from version {} here", tip_.version);
  log_debug("replication: {}: {}", replica_, text);
  link_.queue(MessageType::kRefusal, Refusal{Code::kWrongBase, text});
  phase_ = Phase::kLeaving;
}

void Session::read(double now) {
  const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
  const std::uint64_t before = link_.bytes_received();
  for (int i = 0;
       i < kMessagesAtOnce && !list_ && (phase_ == Phase::kStranger || phase_ == Phase::kReplica);
       ++i) {
    switch (link_.receive(nowhere)) {
      case MessageLink::Progress::kMore:
        if (link_.bytes_received() > before)
          heard_ = now;  // a part of a message is a sign of life, too
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        return drop(link_.why());
      case MessageLink::Progress::kNoRoom:
        return refuse(no_room(*context_.budget));
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(now); !status.ok()) return refuse(std::move(status));
  }
}

}  // namespace sparcl::replication
