#include "src/replication/upstream.hpp"

#include <fmt/format.h>

#include "src/base/log.hpp"
#include "src/transport/nearby_socket.hpp"
#include "src/transport/sealed_memory.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMessagesAtOnce = 32;  // then the clock is looked at

}  // namespace

void Upstream::connect(Socket socket, std::string address, double now) {
  send_at_once(socket);
  link_ = MessageLink(std::move(socket));
  memory_.close();
  if (address != address_) name_.clear();
  address_ = std::move(address);
  was_refused_ = false;
  phase_ = Phase::kConnecting;
  heard_ = now;
}

void Upstream::close() {
  link_ = MessageLink();
  memory_.close();
  phase_ = Phase::kApart;
}

void Upstream::leave() {
  if (is_ready()) {
    link_.queue(MessageType::kBye, std::span<const std::byte>());
    (void)link_.flush();
  }
  close();
}

std::string Upstream::who() const { return fmt::format("{} {}", what_, name_.empty() ? address_ : name_); }

void Upstream::part(Status why, double now) {
  if (phase_ == Phase::kReady) log_info("replication: {}: {}", who(), why.message());
  close();
  owner_.parted(*this, why.with_prefix(fmt::format("{}: ", who())), now);
}

void Upstream::step(short events, double now) {
  if (phase_ == Phase::kApart) return;
  if (phase_ == Phase::kConnecting && events != 0) {
    if (const int error = link_.connect_failure(); error != 0) {
      return part(Status(Code::kRemoteError, fmt::format("no connection: {}", error_text(error))), now);
    }
    phase_ = Phase::kGreeting;
    link_.queue(MessageType::kHello, owner_.hello());
    heard_ = now;
  }
  if ((phase_ == Phase::kGreeting || phase_ == Phase::kReady) && events != 0) read(now);
}

void Upstream::flush(double now) {
  if (phase_ == Phase::kApart || phase_ == Phase::kConnecting) return;
  if (link_.queued_bytes() > 0) spoke_ = now;
  if (!link_.flush()) part(link_.why(), now);
}

void Upstream::tick(std::uint64_t held, double now) {
  if (phase_ == Phase::kApart) return;
  if (now - heard_ > silence_s_) {
    return part(
        Status(Code::kTimeout, fmt::format("it has not answered for {:g} s: it is stopped, or the link is cut", silence_s_)), now);
  }
  if (phase_ == Phase::kReady && now - spoke_ > alive_period_s_) link_.queue(MessageType::kAlive, Alive{held});
  flush(now);
}

void Upstream::read(double now) {
  const std::uint64_t before = link_.bytes_received();
  read_messages(now);
  if (!is_apart() && link_.bytes_received() > before) heard_ = now;  // a part of a message is a sign of life, too
}

void Upstream::read_messages(double now) {
  const auto place = [this](const ChunkHead& chunk, std::size_t count) { return owner_.place_of(*this, chunk, count); };
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    switch (link_.receive(place)) {
      case MessageLink::Progress::kMore:
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        return part(link_.why(), now);
      case MessageLink::Progress::kMessage:
        break;
    }
    heard_ = now;
    if (Status status = handle(now); !status.ok()) {
      link_.queue(MessageType::kRefusal, Refusal{status.code(), status.message()});
      (void)link_.flush();
      return part(std::move(status), now);
    }
    if (phase_ == Phase::kApart || phase_ == Phase::kConnecting) return;
  }
}

Status Upstream::handle(double now) {
  switch (link_.type()) {
    case MessageType::kWelcome:
      if (is_ready()) break;
      return take_welcome();
    case MessageType::kRefusal: {
      const Result<Refusal> refusal = parse_refusal(link_.content());
      if (!refusal.ok()) return refusal.status();
      was_refused_ = true;
      part(Status(refusal->code, fmt::format("it refuses this replica: {}", refusal->text)), now);
      return {};
    }
    case MessageType::kAlive: {
      const Result<Alive> alive = parse_alive(link_.content());
      if (!alive.ok()) return alive.status();
      owner_.hear_of(*this, alive->version);
      return {};
    }
    case MessageType::kPiece:
      if (!is_ready()) break;
      return take_piece(now);
    case MessageType::kBye:
      part(Status(Code::kRemoteError, "it has left"), now);
      return {};
    default:
      if (!is_ready()) break;
      return owner_.take(*this, now);
  }
  return Status(Code::kCorrupt, fmt::format("a message of type {} is out of place here", static_cast<int>(link_.type())));
}

Status Upstream::take_welcome() {
  const Result<Welcome> welcome = parse_welcome(link_.content());
  if (!welcome.ok()) return welcome.status();
  alive_period_s_ = alive_period_s(silence_s_, welcome->silence_ms);
  name_ = fmt::format("{} ({})", welcome->name, address_);
  phase_ = Phase::kReady;
  SPARCL_RETURN_IF_ERROR(owner_.take_welcome(*this, *welcome));
  if (!welcome->memory.name.empty() && !memory_failed_) open_memory(welcome->memory);
  return {};
}

// Where it cannot be reached after all everything comes over the connection.
void Upstream::open_memory(const MemoryInvitation& invitation) {
  Result<Socket> socket = connect_nearby(invitation.name);
  if (!socket.ok()) return log_debug("replication: {}: no memory is shared: {}", who(), socket.status().message());
  if (send_nearby(*socket, invitation.token, -1).kind == Moved::Kind::kBytes) memory_ = std::move(*socket);
}

// The memory was sent before this message, so that it is there.
Status Upstream::take_piece(double now) {
  const Result<Piece> piece = parse_piece(link_.content());
  if (!piece.ok()) return piece.status();
  memory_failed_ = true;  // unless all goes well
  std::array<std::byte, kPieceBytes> note{};
  NearbyMessage came = receive_nearby(memory_, note);
  if (came.moved.kind != Moved::Kind::kBytes || !came.descriptor.is_open() || note != serialise(*piece)) {
    return Status(Code::kCorrupt, "a piece of memory was said to come, and did not");
  }
  const Result<SealedMemory> memory = SealedMemory::adopt(std::move(came.descriptor), piece->bytes);
  if (!memory.ok()) return memory.status();
  Result<Buffer> mapped = memory->map();
  if (!mapped.ok()) return mapped.status();
  memory_failed_ = false;
  link_.queue(MessageType::kTaken, std::span<const std::byte>());
  return owner_.take_memory(*this, *piece, std::move(*mapped), now);
}

}  // namespace sparcl::replication
