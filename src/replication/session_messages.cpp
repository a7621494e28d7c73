// The messages of a session's peer.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"
#include "src/codec/wire.hpp"
#include "src/model/schema.hpp"
#include "src/replication/report_text.hpp"
#include "src/replication/session_machine.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMaxRefusals = 3;  // of updates, one after the other

bool may_precede_damage(MessageType type) {
  return type == MessageType::kDamage || type == MessageType::kBye || type == MessageType::kRefusal;
}

std::string quoted(const std::string& text) { return text.empty() ? "(none)" : "'" + text + "'"; }

template <class Message>
Status read_and(const Result<Message>& message, auto&& use) {
  return message.ok() ? use(*message) : message.status();
}

}  // namespace

void SessionMachine::on_secured(trust::Role role, const std::optional<SessionProof>& proof) {
  role_ = role;
  if (proof) send(MessageType::kProof, *proof);
}

void SessionMachine::on_message(MessageType type, std::vector<std::byte>& content, double now) {
  heard_ = now;
  if (Status status = take(type, content, now); !status.ok()) refuse(std::move(status));
}

Status SessionMachine::take(MessageType type, std::vector<std::byte>& content, double now) {
  Serving* at = serving();
  const bool must_say_damage =
      at != nullptr && std::holds_alternative<session_stage::AwaitsDamage>(at->stage);
  if (must_say_damage && !may_precede_damage(type))
    return Status(Code::kCorrupt, "it is damaged, by its hello, and does not say where");
  if (type == MessageType::kRefusal) return take_refusal(content);
  if (type == MessageType::kBye) return take_bye(content);
  return at != nullptr ? take_of_replica(*at, type, content, now) : take_greeting(type, content);
}

// An observer may ask for the status alone.
Status SessionMachine::check_role(MessageType type) const {
  if (!role_ || *role_ >= trust::Role::kReplicate || type == MessageType::kStatusQuery) return {};
  return Status(Code::kUnauthorized,
                fmt::format("it has role {}: give it the secret or the certificate of role {}",
                            role_name(*role_), role_name(trust::Role::kReplicate)));
}

// Messages of an unauthenticated connection.
Status SessionMachine::take_greeting(MessageType type, std::vector<std::byte>& content) {
  SPARCL_RETURN_IF_ERROR(check_role(type));
  switch (type) {
    case MessageType::kHello:
      return is<session_phase::Greeting>() ? take_hello(content) : out_of_place(type);
    case MessageType::kSchema:
      return is<session_phase::AwaitsList>() ? take_list(content) : out_of_place(type);
    case MessageType::kStatusQuery:
      return content.empty() ? take_status_query() : out_of_place(type);
    case MessageType::kModelQuery:
      return take_model_query(content);
    case MessageType::kEnroll:
      return corrupt(
          "a worker connects to a publisher: give it an aggregator's address for workers, that of "
          "sparcl aggregate --listen");
    default:
      return out_of_place(type);
  }
}

Status SessionMachine::take_of_replica(Serving& at, MessageType type,
                                       std::span<const std::byte> content, double now) {
  const bool may_say_blocks =
      std::holds_alternative<session_stage::AwaitsAnswer>(at.stage) && feed_->request_repair;
  switch (type) {
    case MessageType::kRequest:
      return read_and(parse_request(content),
                      [&](const Request& each) { return take_request(at, each, now); });
    case MessageType::kAck:
      return read_and(parse_ack(content), [&](const Ack& each) { return take_ack(at, each, now); });
    case MessageType::kNack:
      return read_and(parse_nack(content), [&](const Nack& each) { return take_nack(at, each); });
    case MessageType::kShares:
      if (memory_state_ == Memory::kNotShared) break;
      memory_state_ = Memory::kShared;
      return {};
    case MessageType::kTaken:
      if (pieces_out_.empty()) break;
      return take_taken(now);
    case MessageType::kPin:
      return read_and(parse_pin(content), [&](const Pin& each) {
        at.pin = each.version;
        offer_next(at, now);
        return Status();
      });
    case MessageType::kOrphan:
      if (fan_out() == nullptr) break;
      return read_and(parse_orphan(content),
                      [&](const Orphan& each) { return take_orphan(at, each, now); });
    case MessageType::kDamage:
      if (!at.may_say_damage) break;
      return take_damage(at, content);
    case MessageType::kBlocks:
      if (!may_say_blocks) break;
      return take_blocks(at, content);
    case MessageType::kChallenge:
      if (!context_.sign) break;
      return read_and(parse_challenge(content), [&](const Challenge& each) {
        challenge_ = each;
        (void)answer_challenge(now);
        return Status();
      });
    case MessageType::kSideWanted:
      if (context_.side_files == nullptr || side_files_) break;
      return take_side_wanted(content);
    case MessageType::kAlive:
      return parse_alive(content).status();
    default:
      break;
  }
  return out_of_place(type);
}

Status SessionMachine::take_status_query() {
  const std::string report = context_.status_report();
  const std::span<const std::byte> text =
      std::as_bytes(std::span(std::string_view(report).substr(0, kMaxReportBytes)));
  send(MessageType::kStatusReply, {text.begin(), text.end()});
  phase_ = session_phase::Leaving{};
  return {};
}

Status SessionMachine::take_model_query(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const LatestHeld latest, parse_model_query(content));
  if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
  if (!context_.model_reply)
    return Status(Code::kUnsupported,
                  "a replica does not tell what is published: ask the publisher");
  if (context_.learn_epoch) SPARCL_RETURN_IF_ERROR(context_.learn_epoch(latest));
  act(session_action::SendWhole{*context_.model_reply});
  phase_ = session_phase::Leaving{};
  return {};
}

Status SessionMachine::take_refusal(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const Refusal refusal, parse_refusal(content));
  warn(fmt::format("{} refuses what it is sent: {}", replica_, refusal.text),
       fmt::format("replicas refuse what they are sent ({})", code_name(refusal.code)));
  drop(Status());
  return {};
}

// A replica that begins anew is not lost, and does not hold what it said.
Status SessionMachine::take_bye(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const Bye bye, parse_bye(content));
  if (is_replica() && !bye.begins_anew && context_.on_departure) context_.on_departure(*this);
  if (is_replica())
    log_info("replication: replica {} {}", replica_, bye.begins_anew ? "begins anew" : "has left");
  drop(Status());
  return {};
}

// --- the way in ---

Status SessionMachine::take_hello(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const Hello hello, parse_hello(content));
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
  last_receipt_ = hello.receipt;
  given_ = context_.receipts->given(last_receipt_);
  if (refuse_backed_off(heard_)) return {};
  if (context_.learn_epoch) SPARCL_RETURN_IF_ERROR(context_.learn_epoch(hello.latest));
  feed_ = context_.find_feed(hello.schema_hash);
  if (feed_ != nullptr) return enter(hello);
  if (!context_.max_schema_bytes) {
    return Status(Code::kMismatch,
                  "its list of tensors (names, types, shapes, order) is not this replica's");
  }
  act(session_action::Expect{MessageType::kSchema, context_.max_schema_bytes()});
  send(MessageType::kSchemaWanted, std::vector<std::byte>());
  phase_ = session_phase::AwaitsList{hello};
  return {};
}

Status SessionMachine::take_list(std::vector<std::byte>& content) {
  Hello& hello = std::get<session_phase::AwaitsList>(phase_).hello;
  if (model::schema_hash(content) != hello.schema_hash) {
    return Status(Code::kCorrupt,
                  "its list of tensors is not the one that its hello has the hash of");
  }
  session_phase::HasList next{std::move(hello), std::move(content)};
  phase_ = std::move(next);
  return {};
}

void SessionMachine::on_feed(Result<SessionFeedRef> feed) {
  const Hello hello = std::move(std::get<session_phase::HasList>(phase_).hello);
  phase_ = session_phase::AwaitsList{};  // its list is needed no more
  Status status = feed.status();
  if (feed.ok()) {
    feed_ = std::move(*feed);
    status = enter(hello);
  }
  if (!status.ok()) refuse(std::move(status));
}

Status SessionMachine::enter(const Hello& hello) {
  if (!context_.closed.empty()) return Status(Code::kRemoteError, context_.closed);
  if (counts_.replicas >= context_.max_replicas && !(context_.evict && context_.evict(*this))) {
    refuse(Status(Code::kRemoteError,
                  fmt::format("it serves {} replicas already, as many as {}", context_.max_replicas,
                              context_.replica_limit_reason)),
           RefusalReason::kSlots);
    return {};
  }
  ++counts_.replicas;
  label_ = context_.slots->take(process_, id());
  SPARCL_RETURN_IF_ERROR(trust::fill_random(receipt_));
  if (given_.version > 0) context_.receipts->note(receipt_, given_);
  phase_ = begin_serving(hello);
  const Serving& at = *serving();
  if (at.may_say_damage)
    act(session_action::Expect{MessageType::kDamage, damage_bytes(feed_->block_count),
                               feed_->request_repair != nullptr});
  if (context_.on_arrival) context_.on_arrival(*this);
  const bool shares_memory = hello.shares_memory && memory_.invitation() && peer_.is_same_host;
  join(hello, shares_memory);
  return welcome(at, shares_memory);
}

SessionMachine::Serving SessionMachine::begin_serving(const Hello& hello) const {
  Serving at;
  // The publisher knows these bytes by this number: the replica's acknowledgement may have been
  // lost.
  at.held = {hello.held, hello.held_is_vouched, store().knows(hello.held)};
  at.tip = {hello.tip, hello.tip_is_vouched, store().knows(hello.tip)};
  at.ahead = hello.ahead;
  at.pin = hello.pin;
  at.brought_hash = hello.tip.hash;
  at.may_say_damage = hello.damaged;
  at.takes_bytes = hello.takes_bytes;
  at.only_told = hello.only_told;
  if (at.only_told && store().newest()) at.told_newest = store().newest()->version;  // WELCOME
  const bool is_of_this_epoch = hello.latest.epoch == context_.epoch;
  if (hello.holds_copy) at.nearly = is_of_this_epoch ? hello.latest.version : 0;
  // A replica of another epoch drops the updates that wait there.
  at.is_of_another_epoch = !is_of_this_epoch && at.ahead == 0;
  if (is_of_this_epoch) at.oldest_taken = hello.latest.version;
  at.alive_period_s =
      std::min(alive_period_s(context_.silence_s, hello.silence_ms), context_.alive_s);
  if (hello.damaged && feed_->request_repair) at.stage = session_stage::AwaitsDamage{};
  return at;
}

// Other replicas reach it at the address that it comes from, whatever it says. A replica of this
// host takes nothing from other replicas, and neither does one that is only told of versions.
void SessionMachine::join(const Hello& hello, bool shares_memory) {
  const std::optional<net::NetAddress>& from = peer_.from;
  if (from && hello.port != 0) {
    serves_at_ = from;
    serves_at_->port = hello.port;
  }
  if (fan_out() == nullptr || shares_memory || hello.only_told) return;
  fan_out()->join(id(), serves_at_.has_value(), hello.shares_memory ? from : std::nullopt, from,
                  hello.gives_bytes);
  fan_out()->holds(id(), acknowledged_version());
}

Status SessionMachine::welcome(const Serving& at, bool shares_memory) {
  const std::uint64_t newest = store().newest() ? store().newest()->version : 0;
  Welcome welcome{kProtocolVersion,
                  context_.model_id,
                  context_.epoch,
                  newest,
                  to_ms(context_.silence_s),
                  context_.name,
                  {}};
  if (shares_memory) welcome.memory = memory_.invitation();
  welcome.receipt = receipt_;
  if (role_ && serves_at_ && fan_out() != nullptr) {
    SPARCL_ASSIGN_OR_RETURN(relay_key_, new_relay_key());
    welcome.relay_key = relay_key_;
  }
  memory_state_ = shares_memory ? Memory::kInvited : Memory::kNotShared;
  send(MessageType::kWelcome, welcome);
  log_info("replication: replica {} has come with version {}, the newest is {}", replica_,
           at.tip.version.version, newest);
  return {};
}

// --- what a replica says ---

Status SessionMachine::take_request(Serving& at, const Request& request, double now) {
  if (const auto* sending = std::get_if<session_stage::Sending>(&at.stage);
      sending != nullptr && request.update == sending->update->name())
    return {};  // it had refused another one meanwhile
  auto* offered = std::get_if<session_stage::Offered>(&at.stage);
  if (offered == nullptr || request.update != offered->update->name() ||
      request.first_byte > offered->update->commit.stream_bytes) {
    return Status(Code::kCorrupt,
                  fmt::format("it asks for byte {} of version {}, which was not offered",
                              request.first_byte, request.update.version));
  }
  if (standing_ == Standing::kNew) standing_ = Standing::kAnswered;
  moved_at_ = now;
  const UpdateRef update = std::move(offered->update);
  const Commit& commit = update->commit;
  const std::uint64_t leaves = leaf_count(commit.stream_bytes);
  const std::uint64_t first_leaf = request.has_leaves || leaves == 1 ? leaves : 0;
  at.stage =
      session_stage::Sending{update, now, first_leaf, request.first_byte, request.first_byte == 0};
  if (fan_out() != nullptr) {
    fan_out()->begin(id(), commit.version, commit.stream_bytes - request.first_byte,
                     commit.is_anchor, now);
  }
  return {};
}

Status SessionMachine::take_side_wanted(std::span<const std::byte> content) {
  SPARCL_ASSIGN_OR_RETURN(const Digest256 digest, parse_side_wanted(content));
  side_files_ = SideFilesTold{digest};
  tell_side_files();
  return {};
}

Status SessionMachine::take_taken(double now) {
  pieces_out_.pop_front();
  moved_at_ = now;
  return {};
}

Status SessionMachine::take_ack(Serving& at, const Ack& ack, double now) {
  note_given_by_parent();
  const bool is_held = ack.stage == AckStage::kHeld;
  const bool is_ours = store().knows(ack.held);
  if (is_held && is_ours && ack.held.version <= given_.version && given_.has_bytes &&
      !is_proven()) {
    standing_ = Standing::kProven;
    act(session_action::Prove{});
  }
  // A replica may repeat what it came with, of another publisher. One that is only told may hold
  // anything.
  if (is_held && !is_ours && !at.only_told && ack.held != at.held.version &&
      ack.held != at.tip.version)
    context_.scores->note(score_key(), Offence::kFalseAck, now);
  if (is_ours) at.staged_version = std::max(at.staged_version, ack.held.version);
  if (at.only_told && is_ours && standing_ == Standing::kNew) standing_ = Standing::kAnswered;
  const bool has_parent = std::holds_alternative<session_stage::HasParent>(at.stage);
  if (has_parent && !is_held) {  // else it was counted when it was sent
    at.tip = {ack.held, ack.is_vouched, is_ours};
    ++at.ahead;
  }
  if (is_held) {
    at.held = {ack.held, ack.is_vouched, is_ours};
    const bool is_tip = ack.held == at.tip.version;
    if (is_tip) at.tip.is_vouched = ack.is_vouched;
    if (ack.is_vouched) {
      at.is_compared = false;
      if (const auto* digest = std::get_if<session_stage::AwaitsDigest>(&at.stage);
          digest != nullptr && digest->instead)
        at.stage = session_stage::AwaitsRepair(*digest->instead);
      else if (digest != nullptr || std::holds_alternative<session_stage::AwaitsAnswer>(at.stage))
        at.stage = session_stage::Idle{};
    }
    at.refused_in_a_row = 0;
    at.ahead = is_tip ? 0 : std::max(at.ahead - 1, 0);
    if (at.ahead == 0) at.ahead_bytes = 0;
  }
  if (fan_out() != nullptr) {
    fan_out()->staged(id(), at.staged_version, now);
    fan_out()->holds(id(), acknowledged_version());
    fan_out()->set_full(id(), at.ahead >= kMaxAhead);
  }
  return {};
}

// A replica that passes updates on has nothing to compare the hashes with: it goes on as if there
// were none.
Status SessionMachine::take_damage(Serving& at, std::span<const std::byte> content) {
  at.may_say_damage = false;
  if (!feed_->request_repair) return {};  // nothing of it was kept
  at.stage = session_stage::Idle{};
  SPARCL_ASSIGN_OR_RETURN(Damage damage, parse_damage(content));
  if (damage.block_hashes.size() != feed_->block_count) {
    return Status(Code::kCorrupt, fmt::format("it has hashes of {} blocks, its tensors have {}",
                                              damage.block_hashes.size(), feed_->block_count));
  }
  const auto sum =
      std::accumulate(damage.block_hashes.begin(), damage.block_hashes.end(), feed_->schema_hash);
  warn(fmt::format("replica {} finds its memory damaged: it does not hold version {} any more",
                   replica_, damage.version.version),
       "replicas find their memory damaged");
  if (sum != at.tip.version.hash) return {};  // they are not of what it holds: it gets all bytes
  auto repair = std::make_shared<Repair>();
  repair->wanted = damage.version;
  repair->held_hash = sum;
  repair->block_hashes = std::move(damage.block_hashes);
  at.stage = session_stage::AwaitsRepair{std::move(repair)};
  return {};
}

// The bytes that it came with are not the version that they were compared with: it may need some
// blocks only.
Status SessionMachine::take_blocks(Serving& at, std::span<const std::byte> content) {
  Result<BlockDigests> blocks = parse_block_digests(content);
  if (!blocks.ok()) return blocks.status();
  if (blocks->version.hash != at.brought_hash) {
    return Status(Code::kCorrupt,
                  fmt::format("it has digests of version {}, with which it was not to be compared",
                              blocks->version.version));
  }
  if (blocks->of_blocks.size() != feed_->block_count) {
    return Status(Code::kCorrupt, fmt::format("it has digests of {} blocks, its tensors have {}",
                                              blocks->of_blocks.size(), feed_->block_count));
  }
  warn(fmt::format("replica {} came with bytes that are not version {}, byte for byte", replica_,
                   blocks->version.version),
       "replicas come with bytes that are no version");
  at.is_compared = true;
  auto repair = std::make_shared<Repair>();
  repair->wanted = blocks->version;
  repair->held_hash = at.tip.version.hash;
  repair->digests = std::move(blocks->of_blocks);
  at.stage = session_stage::AwaitsRepair{std::move(repair)};
  return {};
}

Status SessionMachine::take_nack(Serving& at, const Nack& nack) {
  warn(fmt::format("replica {} refuses version {}: {}", replica_, nack.update.version, nack.text),
       fmt::format("replicas refuse updates ({})", code_name(nack.code)));
  ++refused_;
  if (++at.refused_in_a_row > kMaxRefusals) {
    refuse(Status(nack.code,
                  fmt::format("it refused {} updates one after the other, the last one so: {}",
                              at.refused_in_a_row, nack.text)),
           RefusalReason::kOther);
    return {};
  }
  // The updates that were sent after it are of no use to it either.
  if (std::holds_alternative<session_stage::AwaitsAnswer>(at.stage)) at.is_compared = true;
  let_go(at);
  at.ahead = 0;
  at.ahead_bytes = 0;
  at.needs_anchor = at.needs_anchor || nack.wants_anchor;
  at.tip = at.held;
  at.tip.is_ours = at.held.is_ours && at.held.is_vouched;
  return {};
}

}  // namespace sparcl::replication
