#include "src/replication/upstream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/log.hpp"
#include "src/base/segment_pool.hpp"
#include "src/net/sealed_memory.hpp"
#include "src/replication/connect_text.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMessagesPerLook = 32;  // then the clock is looked at
// Mapped bytes of an update. A process has a limited number of mappings (vm.max_map_count), and
// each piece takes one. Heuristic.
constexpr std::uint64_t kMaxMappedBytes = std::uint64_t{32} << 30;

}  // namespace

void Upstream::connect(net::Socket socket, std::string address, const ClientSecurity& security,
                       double now) {
  send_at_once(socket);
  link_ = MessageLink(std::move(socket), security.tls);
  is_encrypted_ = security.tls != nullptr;
  awaited_key_ = security.publisher_key;
  memory_pid_ = 0;
  if (address != address_) name_.clear();
  address_ = std::move(address);
  newest_ = 0;
  was_refused_ = false;
  phase_ = Phase::kConnecting;
  heard_ = now;
}

void Upstream::close() {
  link_ = MessageLink();
  memory_pid_ = 0;
  phase_ = Phase::kApart;
}

// In whatever phase: one that has said hello would be missed.
void Upstream::leave(bool begins_anew) {
  if (phase_ == Phase::kGreeting || phase_ == Phase::kReady) {
    link_.queue(MessageType::kBye, Bye{begins_anew});
    (void)link_.flush();
  }
  close();
}

// What this replica holds counts once the other side has read it.
void Upstream::leave_for_good() {
  constexpr double kPatience = 0.2;  // seconds; heuristic
  if (phase_ == Phase::kReady) {
    link_.queue(MessageType::kBye, Bye{false});
    link_.finish(kPatience);
    return close();
  }
  leave();
}

std::string Upstream::who() const {
  return fmt::format("{} {}", what(), name_.empty() ? address_ : name_);
}

void Upstream::part(Status why, double now) {
  if (phase_ == Phase::kReady) log_info("replication: {}: {}", who(), why.message());
  if (link_.is_open()) leave(true);  // the other side may be alive: then this replica is not lost
  close();
  owner_.on_closed(*this, why.with_prefix(fmt::format("{}: ", who())), now);
}

void Upstream::step(short events, double now) {
  if (phase_ == Phase::kApart) return;
  if (phase_ == Phase::kConnecting && events != 0) {
    if (const int error = link_.connect_failure(); error != 0)
      return part(no_connection(error, what()), now);
    phase_ = Phase::kSecuring;
    heard_ = now;
    greet_if_secured(now);
    if (phase_ == Phase::kSecuring) flush(now);  // the handshake begins
  }
  const bool has_more = events != 0 || link_.has_unread();
  if (phase_ != Phase::kApart && phase_ != Phase::kConnecting && has_more) read(now);
}

// Once the connection is known to be to the right program.
void Upstream::greet_if_secured(double now) {
  if (phase_ != Phase::kSecuring || !link_.stream().is_ready() || awaited_key_) return;
  phase_ = Phase::kGreeting;
  link_.queue(MessageType::kHello, owner_.hello(*this));
  heard_ = now;
}

Status Upstream::take_proof(double now) {
  SPARCL_RETURN_IF_ERROR(check_proof(link_, link_.content(), *awaited_key_));
  awaited_key_.reset();
  greet_if_secured(now);
  return {};
}

// Adds what the user can do about a connection that ended before there was an answer.
Status Upstream::closed_early(Status why) const {
  if (kind_ != UpstreamKind::kPublisher) return why;
  if (link_.stream().is_refused()) return why;
  if (phase_ == Phase::kSecuring && is_encrypted_)
    return awaited_key_ ? closed_in_handshake(why) : closed_without_certificates(why);
  if (phase_ == Phase::kGreeting && !is_encrypted_)
    return closed_before_answer(why, trust::Role::kReplicate);
  return why;
}

void Upstream::flush(double now) {
  if (phase_ == Phase::kApart || phase_ == Phase::kConnecting) return;
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) part(closed_early(link_.why()), now);
}

void Upstream::tick(std::uint64_t held, double now) {
  if (phase_ == Phase::kApart) return;
  if (now - heard_ > silence_s_) {
    return part(
        Status(Code::kTimeout,
               fmt::format("it has not answered for {:g} s: it is stopped, or the link is cut",
                           silence_s_)),
        now);
  }
  if (phase_ == Phase::kReady && now - spoke_ > alive_period_s_)
    link_.queue(MessageType::kAlive, Alive{held});
  flush(now);
}

void Upstream::read(double now) {
  const std::uint64_t before = link_.heard_bytes();
  read_messages(now);
  if (!is_apart() && link_.heard_bytes() > before)
    heard_ = now;  // a part of a message is a sign of life, too
}

void Upstream::read_messages(double now) {
  const auto destination = [this](const ChunkHead& chunk, std::size_t count) {
    return owner_.destination(*this, chunk, count);
  };
  for (int i = 0; i < kMessagesPerLook; ++i) {
    switch (link_.receive(destination)) {
      case MessageLink::Progress::kMore:
        return greet_if_secured(now);
      case MessageLink::Progress::kClosed:
        return part(closed_early(link_.why()), now);
      case MessageLink::Progress::kCorrupt:
      case MessageLink::Progress::kNoRoom:  // never: it has no limit of its own
        return part(link_.why(), now);
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(now); !status.ok()) {
      // Before its PROOF the other side learns nothing.
      if (phase_ != Phase::kSecuring)
        link_.queue(MessageType::kRefusal, Refusal{status.code(), status.message()});
      (void)link_.flush();
      return part(std::move(status), now);
    }
    if (phase_ == Phase::kApart || phase_ == Phase::kConnecting) return;
  }
}

Status Upstream::handle(double now) {
  greet_if_secured(now);
  const bool is_proof = link_.type() == MessageType::kProof;
  if (phase_ == Phase::kSecuring && is_proof && awaited_key_) return take_proof(now);
  if (phase_ == Phase::kSecuring || is_proof) return out_of_place(link_.type());
  switch (link_.type()) {
    case MessageType::kWelcome:
      if (is_ready()) break;
      return take_welcome();
    case MessageType::kSchemaWanted:
      if (is_ready()) break;
      return tell_schema();
    case MessageType::kRefusal: {
      SPARCL_ASSIGN_OR_RETURN(const Refusal refusal, parse_refusal(link_.content()));
      was_refused_ = true;
      part(Status(refusal.code, fmt::format("it refuses this replica: {}", refusal.text)), now);
      return {};
    }
    case MessageType::kAlive: {
      SPARCL_ASSIGN_OR_RETURN(const Alive alive, parse_alive(link_.content()));
      note_newest(alive.version);
      return {};
    }
    case MessageType::kOffer:
    case MessageType::kLeaves:
    case MessageType::kChunk:
    case MessageType::kPiece:
    case MessageType::kCommit:
      if (!is_ready()) break;
      return take_of_update(now);
    case MessageType::kBye:
      part(Status(Code::kRemoteError, "it has left"), now);
      return {};
    default:
      if (!is_ready()) break;
      return owner_.take(*this, now);
  }
  return out_of_place(link_.type());
}

Status Upstream::take_of_update(double now) {
  switch (link_.type()) {
    case MessageType::kOffer: {
      SPARCL_ASSIGN_OR_RETURN(Offer offer, parse_offer(link_.content()));
      return owner_.on_plan(*this, std::move(offer), now);
    }
    case MessageType::kLeaves: {
      SPARCL_ASSIGN_OR_RETURN(const Leaves leaves, parse_leaves(link_.content()));
      return owner_.on_digests(*this, leaves);
    }
    case MessageType::kChunk:
      return owner_.on_chunk(*this, link_.chunk(), link_.chunk_bytes(),
                             link_.chunk_has_destination(), now);
    case MessageType::kPiece:
      return take_piece(now);
    default: {
      SPARCL_ASSIGN_OR_RETURN(const CommitNote note, parse_commit_note(link_.content()));
      return owner_.on_end(*this, note.update);
    }
  }
}

void Upstream::note_newest(std::uint64_t version) {
  newest_ = std::max(newest_, version);
  owner_.on_newest(*this, version);
}

void Upstream::offer(const model::VersionHave& have) {
  if (is_ready()) link_.queue(MessageType::kAck, have);
}

void Upstream::chunks(const model::ChunkRequest& plan) {
  if (is_ready()) link_.queue(MessageType::kRequest, plan);
}

void Upstream::refuse(const model::PlanRefusal& why) {
  if (is_ready()) link_.queue(MessageType::kNack, why);
}

Status Upstream::tell_schema() {
  const std::span<const std::byte> schema = owner_.schema();
  if (schema.empty() || schema.size() > kMaxSchemaBytes) {
    return Status(Code::kMismatch, fmt::format("these tensors are not the publisher's, and their "
                                               "list has {} bytes: at most {} can be told",
                                               schema.size(), kMaxSchemaBytes));
  }
  link_.queue(MessageType::kSchema, schema);
  return {};
}

Status Upstream::take_welcome() {
  const Result<Welcome> welcome = parse_welcome(link_.content());
  if (!welcome.ok()) return welcome.status();
  alive_period_s_ = alive_period_s(silence_s_, welcome->silence_ms);
  name_ = fmt::format("{} ({})", welcome->name, address_);
  phase_ = Phase::kReady;
  newest_ = welcome->newest;
  SPARCL_RETURN_IF_ERROR(owner_.take_welcome(*this, *welcome));
  if (welcome->memory && !memory_failed_ && !is_apart()) try_memory(*welcome->memory);
  return {};
}

// If the memory cannot be reached (another user, another container), all bytes come over the
// connection.
void Upstream::try_memory(const MemoryInvitation& invitation) {
  const Result<net::SealedMemory> proof =
      net::SealedMemory::of_process(invitation.pid, invitation.descriptor, invitation.token.size());
  const Result<Buffer> bytes = proof.ok() ? proof->map() : Result<Buffer>(proof.status());
  if (!bytes.ok())
    return log_debug("replication: {}: no memory is shared: {}", who(), bytes.status().message());
  if (!std::ranges::equal(bytes->bytes(), invitation.token))
    return;  // another process of that number
  memory_pid_ = invitation.pid;
  link_.queue(MessageType::kShares, std::span<const std::byte>());
}

Status Upstream::take_piece(double now) {
  const Result<Piece> piece = parse_piece(link_.content());
  if (!piece.ok()) return piece.status();
  if (memory_pid_ == 0) return Status(Code::kCorrupt, "a piece of memory came, and none is shared");
  memory_failed_ = true;  // unless all goes well
  SPARCL_ASSIGN_OR_RETURN(
      const net::SealedMemory memory,
      net::SealedMemory::of_process(memory_pid_, piece->descriptor, piece->bytes));
  Result<Buffer> bytes = memory.map();
  if (!bytes.ok()) return bytes.status();
  memory_failed_ = false;
  if (piece->first_byte >= kMaxMappedBytes) {
    const Buffer copy = take_segment().slice(0, bytes->size());
    std::memcpy(copy.data(), bytes->data(), bytes->size());
    bytes = copy;
  }
  link_.queue(MessageType::kTaken, std::span<const std::byte>());
  (void)link_.flush();  // the other side waits for it; an error is met again
  return owner_.on_memory(*this, {piece->version, piece->first_byte}, std::move(*bytes), now);
}

}  // namespace sparcl::replication
