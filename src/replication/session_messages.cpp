// What a session's peer says, message by message.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"
#include "src/codec/wire.hpp"
#include "src/model/schema.hpp"
#include "src/replication/report_text.hpp"
#include "src/replication/session.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMaxRefusals = 3;  // of updates, one after the other

FanOut::Blame blame_of(Code why) {
  switch (why) {
    case Code::kSuccess:
      return FanOut::Blame::kNobody;
    case Code::kWrongBase:  // it is too far behind for its parent
      return FanOut::Blame::kReplica;
    case Code::kTimeout:
      return FanOut::Blame::kIdleParent;
    case Code::kCorrupt:
    case Code::kUnauthorized:
      return FanOut::Blame::kFalseParent;
    default:
      return FanOut::Blame::kParent;
  }
}

bool must_follow_damage(MessageType type) {
  return type != MessageType::kDamage && type != MessageType::kBye && type != MessageType::kRefusal;
}

std::string quoted(const std::string& text) { return text.empty() ? "(none)" : "'" + text + "'"; }

}  // namespace

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
      if (is_replica || !link_.content().empty()) break;
      report = context_.status_report();
      link_.queue(MessageType::kStatusReply,
                  std::as_bytes(std::span(std::string_view(report).substr(0, kMaxReportBytes))));
      phase_ = Phase::kLeaving;
      return {};
    case MessageType::kModelQuery:
      if (is_replica) break;
      return take_model_query();
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
    case MessageType::kBlocks:
      if (!is_replica || identifying_ != Identifying::kAwaitsWord || !source_->request_repair)
        break;
      return take_blocks();
    case MessageType::kAlive:
      if (!is_replica) break;
      return parse_alive(link_.content()).status();
    case MessageType::kRefusal: {
      SPARCL_ASSIGN_OR_RETURN(const Refusal refusal, parse_refusal(link_.content()));
      warn(fmt::format("{} refuses what it is sent: {}", replica_, refusal.text),
           fmt::format("replicas refuse what they are sent ({})", code_name(refusal.code)));
      drop(Status());
      return {};
    }
    case MessageType::kBye:
      return take_bye();
    default:
      break;
  }
  return Status(Code::kCorrupt, fmt::format("a message of type {} is out of place here",
                                            static_cast<int>(link_.type())));
}

Status Session::take_model_query() {
  SPARCL_ASSIGN_OR_RETURN(const LatestHeld latest, parse_model_query(link_.content()));
  if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
  if (!context_.model_reply)
    return Status(Code::kUnsupported,
                  "a replica does not tell what is published: ask the publisher");
  if (context_.learn_epoch) SPARCL_RETURN_IF_ERROR(context_.learn_epoch(latest));
  link_.queue(*context_.model_reply);
  phase_ = Phase::kLeaving;
  return {};
}

Status Session::take_hello() {
  SPARCL_ASSIGN_OR_RETURN(const Hello hello, parse_hello(link_.content()));
  process_ = shown_name(hello.name);
  replica_ = fmt::format("{} ({})", process_, replica_);
  if (hello.protocol != kProtocolVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the replication protocol, this process "
                              "version {}: install the same sparcl on both sides",
                              hello.protocol, kProtocolVersion));
  }
  if (hello.wire_version != codec::kWireVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("it reads updates of version {}, this process writes version {}: "
                              "install the same sparcl on both sides",
                              hello.wire_version, codec::kWireVersion));
  }
  if (hello.model_id != context_.model_id) {
    return Status(Code::kMismatch, fmt::format("it wants the model {}, this publisher has {}",
                                               quoted(hello.model_id), quoted(context_.model_id)));
  }
  if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
  if (context_.learn_epoch) SPARCL_RETURN_IF_ERROR(context_.learn_epoch(hello.latest));
  source_ = context_.find_source(hello.schema_hash);
  if (source_ != nullptr) return enter(hello);
  if (!context_.max_schema_bytes) {
    return Status(Code::kMismatch,
                  "its list of tensors (names, types, shapes, order) is not this replica's");
  }
  hello_ = hello;
  link_.allow(MessageType::kSchema, context_.max_schema_bytes());
  link_.queue(MessageType::kSchemaWanted, std::span<const std::byte>());
  return {};
}

// A replica that begins anew is not lost, and does not hold what it said.
Status Session::take_bye() {
  SPARCL_ASSIGN_OR_RETURN(const Bye bye, parse_bye(link_.content()));
  const bool is_replica = phase_ == Phase::kReplica;
  if (is_replica && !bye.begins_anew && context_.on_farewell) context_.on_farewell(*this);
  if (is_replica)
    log_info("replication: replica {} {}", replica_, bye.begins_anew ? "begins anew" : "has left");
  drop(Status());
  return {};
}

Status Session::take_schema() {
  if (model::schema_hash(link_.content()) != hello_->schema_hash) {
    return Status(Code::kCorrupt,
                  "its list of tensors is not the one that its hello has the hash of");
  }
  list_ = link_.take_content();
  return {};
}

void Session::take_source(Result<UpdateSourceRef> source, double now) {
  list_.reset();
  const Hello hello = *std::exchange(hello_, std::nullopt);
  Status status = source.status();
  if (source.ok()) {
    source_ = std::move(*source);
    status = enter(hello);
  }
  if (!status.ok()) refuse(std::move(status));
  step(now);
}

Status Session::enter(const Hello& hello) {
  if (counts_.replicas >= context_.max_replicas && !(context_.evict && context_.evict())) {
    return Status(Code::kRemoteError,
                  fmt::format("it serves {} replicas already, as many as {}", context_.max_replicas,
                              context_.replica_limit_reason));
  }
  ++counts_.replicas;
  label_ = context_.slots->take(process_, id_);
  alive_period_s_ =
      std::min(alive_period_s(context_.silence_s, hello.silence_ms), context_.alive_s);
  tip_ = hello.tip;
  held_ = hello.held;
  ahead_ = hello.ahead;
  pin_ = hello.pin;
  said_damaged_ = hello.damaged;
  held_is_vouched_ = hello.held_is_vouched;
  tip_is_vouched_ = hello.tip_is_vouched;
  identity_of_ = tip_.hash;
  if (hello.holds_copy) nearly_ = hello.latest.epoch == context_.epoch ? hello.latest.version : 0;
  is_of_another_epoch_ =
      hello.latest.epoch != context_.epoch && ahead_ == 0;  // what waits there is dropped if it is
  if (hello.latest.epoch == context_.epoch) oldest_taken_ = hello.latest.version;
  SPARCL_RETURN_IF_ERROR(trust::fill_random(receipt_));
  last_receipt_ = hello.receipt;
  note_given(context_.receipts->given(last_receipt_));
  if (said_damaged_) {
    link_.allow(MessageType::kDamage, damage_bytes(source_->block_count));
    if (!source_->request_repair) link_.skip(MessageType::kDamage);
  }
  // The publisher knows these bytes by this number: it may have been this replica's acknowledgement
  // that was lost.
  has_confirmed_ = held_is_vouched_ && store().knows(*held_);
  tip_is_ours_ = store().knows(tip_);
  phase_ = Phase::kReplica;
  if (context_.on_arrival) context_.on_arrival(*this);
  const bool is_near = hello.shares_memory && memory_.invitation() && is_neighbour();
  join(hello, is_near);
  const std::uint64_t newest = store().newest() ? store().newest()->version : 0;
  Welcome welcome{kProtocolVersion,
                  context_.model_id,
                  context_.epoch,
                  newest,
                  to_ms(context_.silence_s),
                  context_.name,
                  {}};
  if (is_near) welcome.memory = memory_.invitation();
  welcome.receipt = receipt_;
  was_invited_ = is_near;
  link_.queue(MessageType::kWelcome, welcome);
  log_info("replication: replica {} has come with version {}, the newest is {}", replica_,
           tip_.version, newest);
  return {};
}

bool Session::is_neighbour() const {
  const Result<net::NetAddress> own = local_address(link_.socket());
  return from_ && own.ok() && from_->family == own->family && from_->ip == own->ip;
}

// Others reach it at the address that it comes from, whatever it says. One of this machine takes
// nothing from others.
void Session::join(const Hello& hello, bool is_near) {
  if (from_ && hello.port != 0) {
    serves_at_ = from_;
    serves_at_->port = hello.port;
  }
  if (fan_out() == nullptr || is_near) return;
  fan_out()->join(id_, serves_at_.has_value(), hello.shares_memory ? from_ : std::nullopt, from_);
}

Status Session::take_request(double now) {
  SPARCL_ASSIGN_OR_RETURN(const Request request, parse_request(link_.content()));
  const bool is_again = update_ != nullptr && is_requested_ && request.update == update_->name();
  if (is_again) return {};  // it had refused another one meanwhile
  if (update_ == nullptr || is_requested_ || request.update != update_->name() ||
      request.first_byte > update_->commit.stream_bytes) {
    return Status(Code::kCorrupt,
                  fmt::format("it asks for byte {} of version {}, which was not offered",
                              request.first_byte, request.update.version));
  }
  is_requested_ = has_answered_ = true;
  progress_at_ = moved_at_ = now;
  next_byte_ = request.first_byte;
  is_asked_whole_ = next_byte_ == 0;
  const std::uint64_t leaves = leaf_count(update_->commit.stream_bytes);
  next_leaf_ = request.has_leaves || leaves == 1 ? leaves : 0;
  if (fan_out() != nullptr) {
    const Commit& commit = update_->commit;
    fan_out()->begin(id_, commit.version, commit.stream_bytes - next_byte_, commit.is_anchor, now);
  }
  return {};
}

Status Session::take_ack(double now) {
  SPARCL_ASSIGN_OR_RETURN(const Ack ack, parse_ack(link_.content()));
  note_given_by_parent();
  const bool is_held = ack.stage == AckStage::kHeld;
  const bool is_ours = store().knows(ack.held);
  if (is_held && is_ours && ack.held.version <= given_.version && given_.has_bytes && !is_proven_) {
    is_proven_ = true;
    charge_.prove();
  }
  if (is_ours) staged_version_ = std::max(staged_version_, ack.held.version);
  if (is_placed_ && !is_held) {  // else it was counted when it was sent
    tip_ = ack.held;
    tip_is_ours_ = is_ours;
    tip_is_vouched_ = ack.is_vouched;
    ++ahead_;
  }
  if (is_held) {
    held_ = ack.held;
    held_is_vouched_ = ack.is_vouched;
    if (*held_ == tip_) tip_is_vouched_ = held_is_vouched_;
    if (held_is_vouched_) identifying_ = Identifying::kNot;
    has_confirmed_ = is_ours && held_is_vouched_;
    refused_in_a_row_ = 0;
    ahead_ = *held_ == tip_ ? 0 : std::max(ahead_ - 1, 0);
  }
  if (fan_out() != nullptr) {
    fan_out()->staged(id_, staged_version_, now);
    fan_out()->set_full(id_, ahead_ >= kMaxAhead);
  }
  return {};
}

Status Session::take_orphan(double now) {
  SPARCL_ASSIGN_OR_RETURN(const Orphan orphan, parse_orphan(link_.content()));
  if (!is_placed_ || orphan.number != placements_) return {};  // it has been placed anew meanwhile
  const FanOut::Blame blame = blame_of(orphan.code);
  if (blame == FanOut::Blame::kParent) ++context_.counts->blamed;
  if (orphan.code != Code::kSuccess)
    log_info("replication: replica {} comes back: {}", replica_, orphan.text);
  note_given_by_parent();
  is_placed_ = false;
  tip_ = orphan.tip;
  tip_is_ours_ = store().knows(tip_);
  tip_is_vouched_ = orphan.tip_is_vouched;
  ahead_ = orphan.ahead;
  const std::optional<FanOut::Id> expelled = fan_out()->come_back(id_, blame, now);
  const Session* const parent = expelled ? context_.find_session(*expelled) : nullptr;
  if (parent == nullptr) return {};
  log_warn(
      "replication: replica {} passes nothing on any more in this connection: replica {} reports: "
      "{}",
      parent->replica(), replica_, orphan.text);
  return {};
}

// A replica that passes on has nothing to compare it with: it goes on as if there were none.
Status Session::take_damage() {
  said_damaged_ = false;
  if (!source_->request_repair) return {};  // nothing of it was kept
  SPARCL_ASSIGN_OR_RETURN(Damage damage, parse_damage(link_.content()));
  if (damage.block_hashes.size() != source_->block_count) {
    return Status(Code::kCorrupt, fmt::format("it has hashes of {} blocks, its tensors have {}",
                                              damage.block_hashes.size(), source_->block_count));
  }
  const auto sum =
      std::accumulate(damage.block_hashes.begin(), damage.block_hashes.end(), source_->schema_hash);
  warn(fmt::format("replica {} finds its memory damaged: it does not hold version {} any more",
                   replica_, damage.version.version),
       "replicas find their memory damaged");
  if (sum != tip_.hash) return {};  // they are not of what it holds: it gets all bytes
  repair_ = std::make_shared<Repair>();
  repair_->wanted = damage.version;
  repair_->held_hash = sum;
  repair_->block_hashes = std::move(damage.block_hashes);
  repair_is_asked_ = false;
  return {};
}

// What it came with is not the version that it was compared with: it may need but some blocks.
Status Session::take_blocks() {
  Result<BlockDigests> blocks = parse_block_digests(link_.content());
  if (!blocks.ok()) return blocks.status();
  if (blocks->version.hash != identity_of_) {
    return Status(Code::kCorrupt,
                  fmt::format("it has digests of version {}, with which it was not to be compared",
                              blocks->version.version));
  }
  if (blocks->of_blocks.size() != source_->block_count) {
    return Status(Code::kCorrupt, fmt::format("it has digests of {} blocks, its tensors have {}",
                                              blocks->of_blocks.size(), source_->block_count));
  }
  warn(fmt::format("replica {} came with bytes that are not version {}, byte for byte", replica_,
                   blocks->version.version),
       "replicas come with bytes that are no version");
  identifying_ = Identifying::kIsAnother;
  repair_ = std::make_shared<Repair>();
  repair_->wanted = blocks->version;
  repair_->held_hash = tip_.hash;
  repair_->digests = std::move(blocks->of_blocks);
  repair_is_asked_ = false;
  return {};
}

Status Session::take_nack() {
  SPARCL_ASSIGN_OR_RETURN(const Nack nack, parse_nack(link_.content()));
  warn(fmt::format("replica {} refuses version {}: {}", replica_, nack.update.version, nack.text),
       fmt::format("replicas refuse updates ({})", code_name(nack.code)));
  ++refused_;
  if (++refused_in_a_row_ > kMaxRefusals) {
    return Status(nack.code,
                  fmt::format("it refused {} updates one after the other, the last one so: {}",
                              refused_in_a_row_, nack.text));
  }
  // What was sent after it is of no use to it either.
  let_go();
  repair_ = nullptr;
  is_requested_ = false;
  ahead_ = 0;
  needs_anchor_ = needs_anchor_ || nack.wants_anchor;
  if (identifying_ == Identifying::kAwaitsWord) identifying_ = Identifying::kIsAnother;
  if (held_) {
    tip_ = *held_;
    tip_is_ours_ = has_confirmed_;
    tip_is_vouched_ = held_is_vouched_;
  }
  return {};
}

Status Session::take_pin(double now) {
  SPARCL_ASSIGN_OR_RETURN(const Pin pin, parse_pin(link_.content()));
  pin_ = pin.version;
  offer_next(now);
  return {};
}

}  // namespace sparcl::replication
