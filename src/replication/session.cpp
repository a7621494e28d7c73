#include "src/replication/session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/codec/wire.hpp"

namespace sparcl::replication {
namespace {

constexpr std::size_t kSentAtOnce = std::size_t{256} << 10;  // of an update, in one message; heuristic
constexpr std::size_t kQueuedBytes = std::size_t{2} << 20;   // of a replica that does not take them; heuristic
constexpr int kMessagesAtOnce = 32;                          // then the others have their turn
constexpr int kMostRefusals = 3;                             // of updates, one after the other

std::string quoted(const std::string& text) { return text.empty() ? "(none)" : "'" + text + "'"; }

}  // namespace

Session::Session(Socket socket, std::string from, const SessionContext& context, double now)
    : context_(context), link_(std::move(socket)), replica_(std::move(from)), born_(now), heard_(now), spoke_(now) {}

const char* Session::state() const {
  if (phase_ == Phase::kStranger) return "connecting";
  if (phase_ != Phase::kReplica) return "leaving";
  if (update_ != nullptr) return is_requested_ ? "receiving" : "offered";
  if (needs_anchor_) return "waits for an anchor";
  if (context_.store->newest() && held_ && *held_ == *context_.store->newest()) return "current";
  return ahead_ > 0 ? "staged" : "behind";
}

void Session::step(double now) {
  read(now);
  if (phase_ == Phase::kReplica) {
    offer_next();
    send_on();
  }
  if (is_over()) return;
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) return drop(link_.why());
  if (phase_ == Phase::kReplica) send_on();
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
  if (now - spoke_ > alive_period_s_) {
    link_.queue(MessageType::kAlive, Alive{context_.store->newest() ? context_.store->newest()->version : 0});
    step(now);
  }
}

void Session::leave() {
  if (phase_ != Phase::kReplica) return drop(Status());
  link_.queue(MessageType::kBye, std::span<const std::byte>());
  (void)link_.flush();
  phase_ = Phase::kOver;
}

void Session::drop(Status why) {
  if (phase_ == Phase::kOver) return;
  if (phase_ == Phase::kReplica && !why.ok()) log_info("replication: replica {}: {}", replica_, why.message());
  if (phase_ == Phase::kStranger && !why.ok()) log_debug("replication: {}: {}", replica_, why.message());
  phase_ = Phase::kOver;
  link_.close();
}

void Session::refuse(Status why) {
  log_warn("replication: {} is refused: {}", replica_, why.message());
  link_.queue(MessageType::kRefusal, Refusal{why.code(), why.message()});
  phase_ = Phase::kLeaving;
}

void Session::read(double now) {
  const auto nowhere = [](const ChunkHead&, std::size_t) { return std::span<std::byte>(); };
  for (int i = 0; i < kMessagesAtOnce && (phase_ == Phase::kStranger || phase_ == Phase::kReplica); ++i) {
    switch (link_.receive(nowhere)) {
      case MessageLink::Progress::kMore:
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        return drop(link_.why());
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(); !status.ok()) return refuse(std::move(status));
  }
}

Status Session::handle() {
  const bool is_replica = phase_ == Phase::kReplica;
  std::string report;
  switch (link_.type()) {
    case MessageType::kHello:
      if (is_replica) break;
      return take_hello();
    case MessageType::kStatusQuery:
      if (is_replica) break;
      report = context_.status_report();
      link_.queue(MessageType::kStatusReply, std::as_bytes(std::span(std::string_view(report).substr(0, kMaxReportBytes))));
      phase_ = Phase::kLeaving;
      return {};
    case MessageType::kModelQuery:
      if (is_replica) break;
      link_.queue(MessageType::kModelReply, std::span<const std::byte>(context_.model_reply));
      phase_ = Phase::kLeaving;
      return {};
    case MessageType::kRequest:
      if (!is_replica) break;
      return take_request();
    case MessageType::kAck:
      if (!is_replica) break;
      return take_ack();
    case MessageType::kNack:
      if (!is_replica) break;
      return take_nack();
    case MessageType::kAlive:
      if (!is_replica) break;
      return parse_alive(link_.content()).status();
    case MessageType::kBye:
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
  replica_ = fmt::format("{} ({})", hello->name, replica_);
  if (hello->protocol != kProtocolVersion || hello->wire_version != codec::kWireVersion) {
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the protocol with updates of version {}, this publisher {} with {}",
                              hello->protocol, hello->wire_version, kProtocolVersion, codec::kWireVersion));
  }
  if (hello->model_id != context_.model_id) {
    return Status(Code::kMismatch,
                  fmt::format("it wants the model {}, this publisher has {}", quoted(hello->model_id), quoted(context_.model_id)));
  }
  if (hello->schema_hash != context_.schema_hash) {
    return Status(Code::kMismatch, "its list of tensors (names, types, shapes, order) is not the publisher's");
  }
  alive_period_s_ = alive_period_s(context_.silence_s, hello->silence_ms);
  tip_ = hello->tip;
  held_ = hello->held;
  ahead_ = tip_ == *held_ ? 0 : kMostAhead;
  // The publisher knows these bytes by this number: it may have been this replica's acknowledgement that was lost.
  has_confirmed_ = context_.store->newest() && *held_ == *context_.store->newest();
  phase_ = Phase::kReplica;
  const std::uint64_t newest = context_.store->newest() ? context_.store->newest()->version : 0;
  link_.queue(MessageType::kWelcome,
              Welcome{kProtocolVersion, context_.model_id, context_.epoch, newest, to_ms(context_.silence_s), context_.name});
  log_info("replication: replica {} has come with version {}, the newest is {}", replica_, tip_.version, newest);
  return {};
}

Status Session::take_request() {
  const Result<Request> request = parse_request(link_.content());
  if (!request.ok()) return request.status();
  if (update_ == nullptr || is_requested_ || request->update != update_->name() ||
      request->first_byte > update_->commit.stream_bytes) {
    return Status(Code::kCorrupt, fmt::format("it asks for byte {} of version {}, which was not offered", request->first_byte,
                                              request->update.version));
  }
  is_requested_ = true;
  next_byte_ = request->first_byte;
  return {};
}

Status Session::take_ack() {
  const Result<Ack> ack = parse_ack(link_.content());
  if (!ack.ok()) return ack.status();
  staged_version_ = std::max(staged_version_, ack->held.version);
  if (ack->stage == AckStage::kStaged) return {};
  held_ = ack->held;
  has_confirmed_ = true;
  refused_in_a_row_ = 0;
  ahead_ = *held_ == tip_ ? 0 : std::max(ahead_ - 1, 0);
  return {};
}

Status Session::take_nack() {
  const Result<Nack> nack = parse_nack(link_.content());
  if (!nack.ok()) return nack.status();
  log_warn("replication: replica {} refuses version {}: {}", replica_, nack->update.version, nack->text);
  ++refused_;
  if (++refused_in_a_row_ > kMostRefusals) {
    return Status(nack->code,
                  fmt::format("it refused {} updates one after the other, the last one so: {}", refused_in_a_row_, nack->text));
  }
  // What was sent after it is of no use to it either.
  update_ = nullptr;
  is_requested_ = false;
  ahead_ = 0;
  needs_anchor_ = needs_anchor_ || nack->wants_anchor;
  if (held_) tip_ = *held_;
  return {};
}

void Session::offer_next() {
  if (update_ != nullptr || ahead_ >= kMostAhead) return;
  const UpdateStore::Step next = needs_anchor_ ? context_.store->step_by_anchor() : context_.store->step_from(tip_);
  if (next.needs_anchor) {
    needs_anchor_ = context_.store->newest().has_value();
    if (needs_anchor_) context_.request_anchor();
    return;
  }
  if (next.update == nullptr) return;
  needs_anchor_ = false;
  update_ = next.update;
  is_requested_ = false;
  link_.queue(MessageType::kOffer, Offer{update_->commit, update_->signature});
  SPARCL_FAILPOINT("publisher.offered");
}

void Session::send_on() {
  if (update_ == nullptr || !is_requested_) return;
  const std::uint64_t end = update_->commit.stream_bytes;
  while (next_byte_ < end && link_.queued_bytes() < kQueuedBytes) {
    const std::uint64_t left_in_piece = kSentAtOnce - next_byte_ % kSentAtOnce;
    const auto count = static_cast<std::size_t>(std::min(left_in_piece, end - next_byte_));
    link_.queue_chunk({update_->commit.version, next_byte_}, update_->bytes.slice(next_byte_, count));
    next_byte_ += count;
    SPARCL_FAILPOINT("publisher.sending");
  }
  if (next_byte_ < end) return;
  link_.queue(MessageType::kCommit, CommitNote{update_->name()});
  tip_ = update_->target();
  ++ahead_;
  update_ = nullptr;
  is_requested_ = false;
  offer_next();
}

}  // namespace sparcl::replication
