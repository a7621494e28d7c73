#include "src/replication/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::replication {
namespace {

// Of an update, in one message: small ones go in smaller pieces, so that those further down a chain need not wait. Heuristic.
constexpr std::size_t kLargePiece = std::size_t{256} << 10;
constexpr std::size_t kSmallPiece = std::size_t{64} << 10;
constexpr std::uint64_t kLargeUpdate = std::uint64_t{16} << 20;
constexpr std::size_t kQueuedBytes = std::size_t{2} << 20;   // of a replica that does not take them; heuristic
constexpr std::size_t kLeastPiece = std::size_t{256} << 10;  // fewer bytes go over the connection; heuristic
constexpr std::size_t kMostPiecesOut = 4;                    // that a replica has not taken
constexpr int kMessagesAtOnce = 32;                          // then the others have their turn
constexpr double kStalledSeconds = 1;                        // without any progress of an update
constexpr double kLeastPatience = 10;                        // seconds, with one that takes nothing of what it is sent
constexpr int kMostRefusals = 3;                             // of updates, one after the other

FanOut::Blame blame_of(Code why) {
  if (why == Code::kSuccess) return FanOut::Blame::kNobody;
  return why == Code::kWrongBase ? FanOut::Blame::kReplica : FanOut::Blame::kParent;  // too far behind for it
}

bool must_follow_damage(MessageType type) {
  return type != MessageType::kDamage && type != MessageType::kBye && type != MessageType::kRefusal;
}

std::string quoted(const std::string& text) { return text.empty() ? "(none)" : "'" + text + "'"; }

}  // namespace

Session::Session(Socket socket, std::optional<NetAddress> from, std::uint64_t id, const SessionContext& context,
                 MemoryPieces& memory, SessionCounts& counts, double now)
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
      counts_(counts) {}

const char* Session::state() const {
  if (phase_ == Phase::kStranger) return "connecting";
  if (phase_ != Phase::kReplica) return "leaving";
  if (update_ != nullptr) return is_requested_ ? "receiving" : "offered";
  if (awaits_damage() || repair_ != nullptr) return "waits for a repair";
  if (needs_anchor_) return "waits for an anchor";
  if (awaits_composed_) return "waits for a composed update";
  if (store().newest() && held_ && *held_ == *store().newest()) return "current";
  return ahead_ > 0 ? "staged" : "behind";
}

// One that is only told something more is not read any more.
short Session::events() const { return phase_ == Phase::kLeaving ? static_cast<short>(link_.events() & ~POLLIN) : link_.events(); }

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
  if (phase_ == Phase::kReplica) send_on(now);
  if (phase_ == Phase::kLeaving && link_.queued_bytes() == 0) phase_ = Phase::kOver;
}

void Session::tick(double now) {
  if (is_over()) return;
  if (phase_ == Phase::kStranger || phase_ == Phase::kLeaving) {
    if (now - born_ > context_.handshake_s && phase_ == Phase::kStranger)
      drop(Status(Code::kTimeout, "it did not say who it is in time"));
    if (now - heard_ > context_.silence_s && phase_ == Phase::kLeaving) phase_ = Phase::kOver;
    return;
  }
  if (now - heard_ > context_.silence_s) {
    return drop(Status(Code::kTimeout, fmt::format("silent for {:g} s: it is stopped, or its link is cut", context_.silence_s)));
  }
  drop_where_nothing_moves(now);
  if (is_over()) return;
  if (update_ != nullptr && fan_out() != nullptr && now - progress_at_ > kStalledSeconds) {
    fan_out()->held_up(id_, update_->commit.version, progress_at_);
  }
  if (now - spoke_ > alive_period_s_) {
    link_.queue(MessageType::kAlive, Alive{store().newest() ? store().newest()->version : 0});
    step(now);
  }
}

// Something that it has not taken keeps memory here.
bool Session::owes() const { return arrived_ < update_end_ || !pieces_out_.empty() || (update_ != nullptr && !is_requested_); }

// Signs of life are not enough. One whose user does not come to apply what it has is offered nothing.
void Session::drop_where_nothing_moves(double now) {
  const std::uint64_t before = arrived_;
  arrived_ = link_.bytes_sent() - std::min<std::uint64_t>(unacknowledged_bytes(link_.socket()), link_.bytes_sent());
  if (!owes() || (before < update_end_ && arrived_ > before)) moved_at_ = now;
  const double patience = std::max(kLeastPatience, 2 * context_.silence_s);
  if (now - moved_at_ <= patience) return;
  const bool is_offered = update_ != nullptr && !is_requested_ && arrived_ >= update_end_;
  const std::string text = is_offered ? fmt::format("it does not ask for version {}, which it was offered", update_->commit.version)
                                      : "it takes nothing of what it is sent";
  update_ = nullptr;
  pieces_out_.clear();
  drop(Status(Code::kTimeout, fmt::format("{} for {:g} s, though it says that it is alive", text, patience)));
}

void Session::publish(double now) {
  if (phase_ != Phase::kReplica) return;
  confirm(now);
  announce();
  step(now);
}

// What it came with may be a version that was published later.
void Session::confirm(double now) {
  if (has_confirmed_ || !held_ || !store().knows(*held_)) return;
  has_confirmed_ = true;
  staged_version_ = std::max(staged_version_, held_->version);
  if (fan_out() == nullptr) return;
  fan_out()->staged(id_, staged_version_, now);
  fan_out()->holds(id_, held_->version);
}

// What it may believe of its parent.
void Session::announce() {
  if (!is_placed_ || !store().newest() || link_.queued_bytes() >= kQueuedBytes) return;
  for (const HeldVersion& each : store().versions_after(announced_)) link_.queue(MessageType::kAnnounce, Announce{each});
  announced_ = store().newest()->version;
}

void Session::call_back() {
  if (phase_ == Phase::kReplica && is_placed_) link_.queue(MessageType::kParent, Parent{++placements_, {}, context_.name, false});
}

void Session::withdraw(const UpdateRef& update) {
  if (phase_ == Phase::kReplica && update_ == update) refuse(Status(Code::kRemoteError, "the update has not come whole"));
}

void Session::leave() {
  if (phase_ != Phase::kReplica) return drop(Status());
  link_.queue(MessageType::kBye, std::span<const std::byte>());
  (void)link_.flush();
  phase_ = Phase::kOver;
}

void Session::drop(Status why) {
  if (phase_ == Phase::kOver) return;
  if (phase_ == Phase::kReplica && why.code() == Code::kTimeout) {
    log_warn("replication: replica {} is given up: {}", replica_, why.message());
  } else if (phase_ == Phase::kReplica && !why.ok()) {
    log_info("replication: replica {}: {}", replica_, why.message());
  }
  if (phase_ == Phase::kStranger && !why.ok()) log_debug("replication: {}: {}", replica_, why.message());
  phase_ = Phase::kOver;
  link_.close();
}

void Session::give_up_place() {
  if (source_ != nullptr && fan_out() != nullptr) fan_out()->leave(id_);
}

// Those who come again each second are not worth a line each time, whatever port they come from.
void Session::warn(const std::string& text, std::string_view kind) {
  NetAddress from = from_.value_or(NetAddress());
  from.port = 0;
  const std::uint64_t times = context_.warnings->count(fmt::format("{} {}", to_text(from), kind), monotonic_seconds());
  if (times > 0) log_warn("replication: {}{}", text, times_text(times));
}

void Session::refuse(Status why) {
  warn(fmt::format("{} is refused: {}", replica_, why.message()), code_name(why.code()));
  link_.queue(MessageType::kRefusal, Refusal{why.code(), why.message()});
  update_ = nullptr;
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
  for (int i = 0; i < kMessagesAtOnce && (phase_ == Phase::kStranger || phase_ == Phase::kReplica); ++i) {
    switch (link_.receive(nowhere)) {
      case MessageLink::Progress::kMore:
        if (link_.bytes_received() > before) heard_ = now;  // a part of a message is a sign of life, too
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        return drop(link_.why());
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(now); !status.ok()) return refuse(std::move(status));
  }
}

Status Session::handle(double now) {
  const bool is_replica = phase_ == Phase::kReplica;
  std::string report;
  if (is_replica && awaits_damage() && must_follow_damage(link_.type())) {
    return Status(Code::kCorrupt, "it is damaged, by its hello, and does not say where");
  }
  switch (link_.type()) {
    case MessageType::kHello:
      if (is_replica || hello_) break;
      return take_hello();
    case MessageType::kSchema:
      if (!hello_) break;
      return take_schema();
    case MessageType::kStatusQuery:
      if (is_replica) break;
      report = context_.status_report();
      link_.queue(MessageType::kStatusReply, std::as_bytes(std::span(std::string_view(report).substr(0, kMaxReportBytes))));
      phase_ = Phase::kLeaving;
      return {};
    case MessageType::kModelQuery:
      if (is_replica) break;
      if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
      if (!context_.model_reply) return Status(Code::kUnsupported, "a replica does not tell what is published: ask the publisher");
      link_.queue(*context_.model_reply);
      phase_ = Phase::kLeaving;
      return {};
    case MessageType::kRequest:
      if (!is_replica) break;
      return take_request(now);
    case MessageType::kAck:
      if (!is_replica) break;
      return take_ack(now);
    case MessageType::kShares:
      if (!is_replica || !was_invited_) break;
      shares_memory_ = true;
      return {};
    case MessageType::kTaken:
      if (!is_replica || pieces_out_.empty()) break;
      pieces_out_.pop_front();
      moved_at_ = now;
      return {};
    case MessageType::kNack:
      if (!is_replica) break;
      return take_nack();
    case MessageType::kPin:
      if (!is_replica) break;
      return take_pin(now);
    case MessageType::kOrphan:
      if (!is_replica || fan_out() == nullptr) break;
      return take_orphan(now);
    case MessageType::kDamage:
      if (!is_replica || !said_damaged_) break;
      return take_damage();
    case MessageType::kAlive:
      if (!is_replica) break;
      return parse_alive(link_.content()).status();
    case MessageType::kRefusal: {
      const Result<Refusal> refusal = parse_refusal(link_.content());
      if (!refusal.ok()) return refusal.status();
      warn(fmt::format("{} refuses what it is sent: {}", replica_, refusal->text), code_name(refusal->code));
      drop(Status());
      return {};
    }
    case MessageType::kBye:
      if (is_replica && context_.on_farewell) context_.on_farewell(*this);
      drop(is_replica ? Status(Code::kRemoteError, "has left") : Status());
      return {};
    default:
      break;
  }
  return Status(Code::kCorrupt, fmt::format("a message of type {} is out of place here", static_cast<int>(link_.type())));
}

Status Session::take_hello() {
  const Result<Hello> hello = parse_hello(link_.content());
  if (!hello.ok()) return hello.status();
  process_ = hello->name;
  replica_ = fmt::format("{} ({})", process_, replica_);
  if (hello->protocol != kProtocolVersion || hello->wire_version != codec::kWireVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the protocol with updates of version {}, this publisher {} with {}",
                              hello->protocol, hello->wire_version, kProtocolVersion, codec::kWireVersion));
  }
  if (hello->model_id != context_.model_id) {
    return Status(Code::kMismatch,
                  fmt::format("it wants the model {}, this publisher has {}", quoted(hello->model_id), quoted(context_.model_id)));
  }
  if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
  source_ = context_.find_source(hello->schema_hash);
  if (source_ != nullptr) return enter(*hello);
  if (!context_.add_source) {
    return Status(Code::kMismatch, "its list of tensors (names, types, shapes, order) is not this replica's");
  }
  hello_ = *hello;
  link_.allow(MessageType::kSchema);
  link_.queue(MessageType::kSchemaWanted, std::span<const std::byte>());
  return {};
}

Status Session::take_schema() {
  Result<UpdateSourceRef> source = context_.add_source(link_.content());
  if (!source.ok()) return source.status();
  if ((*source)->schema_hash != hello_->schema_hash) {
    return Status(Code::kCorrupt, "its list of tensors is not the one that its hello has the hash of");
  }
  source_ = std::move(*source);
  const Hello hello = *std::exchange(hello_, std::nullopt);
  return enter(hello);
}

Status Session::enter(const Hello& hello) {
  if (counts_.replicas >= context_.most_replicas) {
    return Status(Code::kRemoteError,
                  fmt::format("it serves {} replicas already, as many as {}", context_.most_replicas, context_.most_replicas_why));
  }
  ++counts_.replicas;
  alive_period_s_ = std::min(alive_period_s(context_.silence_s, hello.silence_ms), context_.alive_s);
  tip_ = hello.tip;
  held_ = hello.held;
  ahead_ = hello.ahead;
  pin_ = hello.pin;
  said_damaged_ = hello.damaged;
  wants_bytes_ = hello.wants_bytes;
  if (said_damaged_) {
    link_.allow(MessageType::kDamage, damage_bytes(source_->block_count));
    if (!source_->request_repair) link_.skip(MessageType::kDamage);
  }
  // The publisher knows these bytes by this number: it may have been this replica's acknowledgement that was lost.
  has_confirmed_ = store().knows(*held_);
  tip_is_ours_ = store().knows(tip_);
  phase_ = Phase::kReplica;
  if (context_.on_arrival) context_.on_arrival(*this);
  const bool is_near = hello.shares_memory && memory_.invitation() && is_neighbour();
  join(hello, is_near);
  const std::uint64_t newest = store().newest() ? store().newest()->version : 0;
  Welcome welcome{kProtocolVersion, context_.model_id, context_.epoch, newest, to_ms(context_.silence_s), context_.name, {}};
  if (is_near) welcome.memory = memory_.invitation();
  was_invited_ = is_near;
  link_.queue(MessageType::kWelcome, welcome);
  log_info("replication: replica {} has come with version {}, the newest is {}", replica_, tip_.version, newest);
  return {};
}

bool Session::is_neighbour() const {
  const Result<NetAddress> own = local_address(link_.socket());
  return from_ && own.ok() && from_->family == own->family && from_->ip == own->ip;
}

// Others reach it at the address that it comes from, whatever it says. One of this machine takes nothing from others.
void Session::join(const Hello& hello, bool is_near) {
  if (from_ && hello.port != 0) {
    serves_at_ = from_;
    serves_at_->port = hello.port;
  }
  if (fan_out() == nullptr || is_near) return;
  fan_out()->join(id_, serves_at_.has_value(), hello.shares_memory ? from_ : std::nullopt, hello.gives_bytes);
  fan_out()->holds(id_, has_confirmed_ ? held_->version : 0);
}

Status Session::take_request(double now) {
  const Result<Request> request = parse_request(link_.content());
  if (!request.ok()) return request.status();
  const bool is_again = update_ != nullptr && is_requested_ && request->update == update_->name();
  if (is_again) return {};  // it had refused another one meanwhile
  if (update_ == nullptr || is_requested_ || request->update != update_->name() ||
      request->first_byte > update_->commit.stream_bytes) {
    return Status(Code::kCorrupt, fmt::format("it asks for byte {} of version {}, which was not offered", request->first_byte,
                                              request->update.version));
  }
  is_requested_ = true;
  progress_at_ = moved_at_ = now;
  next_byte_ = request->first_byte;
  if (fan_out() != nullptr) {
    const Commit& commit = update_->commit;
    fan_out()->begin(id_, commit.version, commit.stream_bytes - next_byte_, commit.is_anchor, now);
  }
  return {};
}

Status Session::take_ack(double now) {
  const Result<Ack> ack = parse_ack(link_.content());
  if (!ack.ok()) return ack.status();
  const bool is_held = ack->stage == AckStage::kHeld;
  const bool is_ours = store().knows(ack->held);
  if (is_ours) staged_version_ = std::max(staged_version_, ack->held.version);
  if (is_placed_ && !is_held) {  // else it was counted when it was sent
    tip_ = ack->held;
    tip_is_ours_ = is_ours;
    ++ahead_;
  }
  if (is_held) {
    held_ = ack->held;
    has_confirmed_ = is_ours;
    refused_in_a_row_ = 0;
    ahead_ = *held_ == tip_ ? 0 : std::max(ahead_ - 1, 0);
  }
  if (fan_out() != nullptr) {
    fan_out()->staged(id_, staged_version_, now);
    fan_out()->holds(id_, has_confirmed_ ? held_->version : 0);
    fan_out()->set_full(id_, ahead_ >= kMostAhead);
  }
  return {};
}

Status Session::take_orphan(double now) {
  const Result<Orphan> orphan = parse_orphan(link_.content());
  if (!orphan.ok()) return orphan.status();
  if (!is_placed_ || orphan->number != placements_) return {};  // it has been placed anew meanwhile
  if (orphan->code != Code::kSuccess) log_info("replication: replica {} comes back: {}", replica_, orphan->text);
  is_placed_ = false;
  tip_ = orphan->tip;
  tip_is_ours_ = store().knows(tip_);
  ahead_ = orphan->ahead;
  fan_out()->come_back(id_, blame_of(orphan->code), now);
  return {};
}

// A replica that passes on has nothing to compare it with: it goes on as if there were none.
Status Session::take_damage() {
  said_damaged_ = false;
  if (!source_->request_repair) return {};  // nothing of it was kept
  Result<Damage> damage = parse_damage(link_.content());
  if (!damage.ok()) return damage.status();
  if (damage->block_hashes.size() != source_->block_count) {
    return Status(Code::kCorrupt, fmt::format("it has hashes of {} blocks, its tensors have {}", damage->block_hashes.size(),
                                              source_->block_count));
  }
  const auto sum = std::accumulate(damage->block_hashes.begin(), damage->block_hashes.end(), source_->schema_hash);
  warn(fmt::format("replica {} finds its memory damaged: it does not hold version {} any more", replica_, damage->version.version),
       "damage");
  if (sum != tip_.hash) return {};  // they are not of what it holds: it gets all bytes
  repair_ = std::make_shared<Repair>();
  repair_->wanted = damage->version;
  repair_->held_hash = sum;
  repair_->block_hashes = std::move(damage->block_hashes);
  repair_is_asked_ = false;
  return {};
}

Status Session::take_nack() {
  const Result<Nack> nack = parse_nack(link_.content());
  if (!nack.ok()) return nack.status();
  warn(fmt::format("replica {} refuses version {}: {}", replica_, nack->update.version, nack->text), code_name(nack->code));
  ++refused_;
  if (++refused_in_a_row_ > kMostRefusals) {
    return Status(nack->code,
                  fmt::format("it refused {} updates one after the other, the last one so: {}", refused_in_a_row_, nack->text));
  }
  // What was sent after it is of no use to it either.
  update_ = nullptr;
  repair_ = nullptr;
  is_requested_ = false;
  ahead_ = 0;
  needs_anchor_ = needs_anchor_ || nack->wants_anchor;
  if (held_) {
    tip_ = *held_;
    tip_is_ours_ = has_confirmed_;
  }
  return {};
}

Status Session::take_pin(double now) {
  const Result<Pin> pin = parse_pin(link_.content());
  if (!pin.ok()) return pin.status();
  pin_ = pin->version;
  offer_next(now);
  return {};
}

// Where nothing is signed: who holds a version that leads on here can give it to this one, if its number is less than the newest
// (another publisher's may be anything).
FanOut::Given Session::given_by_others() const {
  const bool may_be = !context_.is_signed && tip_.version < store().newest()->version;
  return {may_be ? store().oldest_version() : 0, repair_ != nullptr};
}

// One that is at most a step behind may take that step, and those after it, from another replica. One that needs an anchor may take
// it from a replica that is being sent it, or holds what it needs.
bool Session::is_placed_elsewhere(const UpdateStore::Step& next, double now) {
  if (fan_out() == nullptr || !store().newest()) return false;
  const std::uint64_t newest = store().newest()->version;
  std::uint64_t anchor = next.needs_anchor ? newest : 0;
  if (next.update != nullptr) {
    const Commit& commit = next.update->commit;
    if (commit.stream_bytes == 0 || next.is_composed) return false;  // the publisher alone has such ones
    if (commit.is_anchor) anchor = commit.version;
    if (!commit.is_anchor && commit.version != newest) return false;
  }
  const std::optional<FanOut::Id> parent = fan_out()->place(id_, anchor, now, given_by_others());
  if (!parent) return false;
  const Session* other = context_.find_session(*parent);
  if (other == nullptr || !other->serves_at()) {
    fan_out()->come_back(id_, FanOut::Blame::kNobody, now);
    return false;
  }
  is_placed_ = true;
  needs_anchor_ = false;
  link_.queue(MessageType::kParent, Parent{++placements_, other->serves_at(), other->replica(), fan_out()->is_given(id_)});
  announced_ = anchor != 0 ? anchor - 1 : newest - 1;
  if (anchor != 0 && other->has_confirmed() && other->held()->version <= announced_) announced_ = other->held()->version - 1;
  announce();
  log_debug("replication: replica {} takes updates from {}", replica_, other->replica());
  return true;
}

UpdateStore::Step Session::next_step() const {
  if (!needs_anchor_ || !store().newest()) return store().step_from(tip_, pin_ == 0 ? UINT64_MAX : pin_);
  // What it was sent here it does not take again. Another publisher's number may be anything.
  const bool is_ours = tip_is_ours_ || tip_.version < store().newest()->version;
  return store().step_by_anchor(is_ours ? tip_.version : 0);
}

void Session::offer_next(double now) {
  if (is_placed_ || update_ != nullptr || awaits_damage()) return;
  if (ahead_ >= kMostAhead) {
    if (fan_out() == nullptr || !store().newest()) return;
    fan_out()->held_up(id_, store().newest()->version, now);
    if (store().newest()->version > std::max(announced_, tip_.version) && link_.queued_bytes() < kQueuedBytes) {
      announced_ = store().newest()->version;
      link_.queue(MessageType::kAnnounce, Announce{*store().newest()});
    }
    return;
  }
  if (link_.queued_bytes() >= kQueuedBytes) return;  // it does not read
  const UpdateStore::Step next = next_step();
  if (repair_ != nullptr && next.brings_all()) {
    if (!repair_is_asked_ && is_placed_elsewhere(next, now)) return;
    if (!std::exchange(repair_is_asked_, true)) source_->request_repair(repair_);
    if (!repair_->is_over) return;
    const UpdateRef made = std::exchange(repair_, nullptr)->update;
    if (made != nullptr && store().knows(made->target())) return offer(made, now);
  }
  if (is_placed_elsewhere(next, now)) return;
  if (next.needs_anchor) {
    needs_anchor_ = store().newest().has_value();
    // The publisher may have a shorter way, where it has not said that it is to be given all bytes here.
    if (!source_->request_anchor || (fan_out() == nullptr && !wants_bytes_)) return end_without_way();
    if (needs_anchor_) source_->request_anchor();
    return;
  }
  awaits_composed_ = next.may_be_composed && source_->request_composed;
  if (next.update == nullptr) return;
  if (awaits_composed_) return source_->request_composed(next.update->base());
  offer(next.update, now);
}

void Session::offer(UpdateRef update, double now) {
  needs_anchor_ = false;
  update_ = std::move(update);
  wants_bytes_ = wants_bytes_ && !update_->commit.has_no_base();  // once
  repair_ = nullptr;
  is_requested_ = false;
  progress_at_ = now;
  link_.queue(MessageType::kOffer, Offer{update_->commit, update_->signature});
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  SPARCL_FAILPOINT("publisher.offered");
}

// As memory: a whole segment, or the end. 0: what comes next goes over the connection.
std::size_t Session::next_piece() const {
  if (!shares_memory_ || next_byte_ % kMaxPieceBytes != 0) return 0;
  const std::uint64_t count = std::min<std::uint64_t>(kMaxPieceBytes, update_->commit.stream_bytes - next_byte_);
  return count < kLeastPiece ? 0 : static_cast<std::size_t>(count);
}

// False: memory is shared no more.
bool Session::pass(std::size_t count, double now) {
  Result<SealedMemoryRef> memory = memory_.piece(update_, next_byte_, count, now);
  if (!memory.ok()) {
    log_debug("replication: {}: memory is shared no more: {}", replica_, memory.status().message());
    shares_memory_ = false;
    return false;
  }
  const Piece piece{update_->commit.version, next_byte_, static_cast<std::uint32_t>(count), (*memory)->descriptor()};
  link_.queue(MessageType::kPiece, piece);
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  pieces_out_.push_back(std::move(*memory));
  bytes_shared_ += count;
  next_byte_ += count;
  (void)link_.flush();  // it takes this one while the next is made; an error is met again
  return true;
}

void Session::send_ready(double now) {
  const std::uint64_t ready = update_->ready_bytes();
  const std::size_t chunk = update_->commit.stream_bytes < kLargeUpdate ? kSmallPiece : kLargePiece;
  while (next_byte_ < ready && link_.queued_bytes() < kQueuedBytes) {
    SPARCL_FAILPOINT("publisher.sending");
    if (const std::size_t piece = next_piece(); piece > 0) {
      if (next_byte_ + piece > ready || pieces_out_.size() >= kMostPiecesOut) return;
      if (pass(piece, now)) continue;
    }
    const std::uint64_t left_in_chunk = chunk - next_byte_ % chunk;
    const auto count = static_cast<std::size_t>(std::min(left_in_chunk, ready - next_byte_));
    link_.queue_chunk({update_->commit.version, next_byte_}, update_->bytes.slice(next_byte_, count));
    update_end_ = link_.bytes_sent() + link_.queued_bytes();
    next_byte_ += count;
  }
}

void Session::send_on(double now) {
  if (update_ == nullptr || !is_requested_) return;
  send_ready(now);
  if (next_byte_ < update_->commit.stream_bytes) return;
  link_.queue(MessageType::kCommit, CommitNote{update_->name()});
  update_end_ = link_.bytes_sent() + link_.queued_bytes();
  tip_ = update_->target();
  tip_is_ours_ = true;
  ++ahead_;
  update_ = nullptr;
  is_requested_ = false;
  if (fan_out() != nullptr) fan_out()->sent(id_, now);
  offer_next(now);
}

}  // namespace sparcl::replication
