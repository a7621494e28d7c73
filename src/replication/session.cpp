#include "src/replication/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/overloaded.hpp"

namespace sparcl::replication {
namespace {

constexpr int kMessagesAtOnce = 32;  // then other sessions have their turn

bool is_same_host(const net::Socket& socket, const std::optional<net::NetAddress>& from) {
  const Result<net::NetAddress> own = local_address(socket);
  return from && own.ok() && from->family == own->family && from->ip == own->ip;
}

Status no_memory_to_serve() { return Status(Code::kOutOfMemory, "there is no memory to serve it"); }

}  // namespace

Session::Session(net::Socket socket, std::optional<net::NetAddress> from, std::uint64_t id,
                 const SessionContext& context, MemoryPieces& memory, SessionCounts& counts,
                 double now)
    : context_(context),
      link_(std::move(socket), context.tls),
      machine_({id, from, is_same_host(link_.socket(), from)}, context, memory, counts, now),
      charge_(PeerBudget::Charge::unproven(context.budget)) {
  link_.set_room([this](std::size_t more) { return has_room(more); });
}

// Memory of one connection alone: messages that came, messages that are queued, a list that waits.
std::uint64_t Session::memory() const {
  return sizeof(Session) + link_.own_bytes() + machine_.own_bytes();
}

bool Session::has_room(std::size_t more) {
  charge_.set(memory() + more);
  const bool has_room =
      machine_.is_proven() ? !context_.budget->is_over() : context_.budget->has_unproven_room(0);
  return has_room || (context_.make_room && context_.make_room(*this));
}

// A session that only sends its last answer reads no more.
short Session::events() const {
  return machine_.is_listening() ? link_.events() : static_cast<short>(link_.events() & ~POLLIN);
}

// --- actions ---

void Session::carry_out() try {
  for (session_action::Any& action : machine_.actions()) carry_out(action);
  machine_.clear_actions();
} catch (const std::bad_alloc&) {
  // Some are carried out: they must not be again, as their bytes are gone.
  machine_.clear_actions();
  link_.close_and_forget();
  charge_.set(0);
  drop(no_memory_to_serve());
}

void Session::carry_out(session_action::Any& action) {
  std::visit(Overloaded{
                 [&](session_action::Send& each) {
                   link_.queue(each.type, std::span<const std::byte>(each.content));
                 },
                 [&](session_action::SendWhole& each) { link_.queue(each.message); },
                 [&](session_action::SendChunk& each) {
                   link_.queue_chunk(each.head, std::move(each.bytes));
                 },
                 [&](const session_action::Expect& each) {
                   link_.allow(each.type, each.max_bytes);
                   if (!each.is_kept) link_.skip(each.type);
                 },
                 [&](session_action::Flush) { (void)link_.flush(); },  // an error is met again
                 [&](session_action::Prove) { charge_.prove(); },
                 [&](session_action::Close) {
                   link_.close_and_forget();
                   charge_.set(0);
                 },
             },
             action);
}

// --- turns ---

// Memory that runs out ends this session, and no other.
void Session::step(double now) try { step_on(now); } catch (const std::bad_alloc&) {
  drop(no_memory_to_serve());
}

void Session::step_on(double now) {
  carry_out();
  read(now);
  if (is_paused_) machine_.on_pause(now);
  if (!is_paused_) machine_.serve(now);
  if (!is_paused_) send_on(now);
  if (is_over()) return;
  if (!link_.flush()) return drop(link_.why());
  machine_.on_sent(link_.bytes_sent(), now);
  if (!is_paused_) machine_.send_on(now);
  if (!is_paused_) send_on(now);
  if (!is_over()) charge_.set(memory());
}

// Each piece of memory goes out before the next one is made.
void Session::send_on(double now) {
  carry_out();
  while (machine_.wants_turn()) {
    machine_.on_sent(link_.bytes_sent(), now);
    machine_.send_on(now);
    carry_out();
  }
}

void Session::read(double now) {
  const auto nowhere = [](const ChunkHead&, std::size_t) { return Buffer(); };
  const std::uint64_t before = link_.heard_bytes();
  for (int i = 0; i < kMessagesAtOnce && machine_.is_listening(); ++i) {
    const MessageLink::Progress progress = link_.receive(nowhere);
    if (!note_secured()) return;
    switch (progress) {
      case MessageLink::Progress::kMore:
        if (link_.heard_bytes() > before) machine_.on_bytes(now);
        return;
      case MessageLink::Progress::kClosed:
      case MessageLink::Progress::kCorrupt:
        if (link_.stream().is_refused()) warn_of_refusal();
        return break_off(progress, now);
      case MessageLink::Progress::kNoRoom:
        machine_.on_no_room();
        return carry_out();
      case MessageLink::Progress::kMessage:
        break;
    }
    machine_.on_message(link_.type(), link_.content(), now);
    carry_out();
  }
}

// One line for each certificate of a host: several processes may come from there.
void Session::warn_of_refusal() {
  ++context_.counts->refused;
  net::NetAddress host = machine_.from().value_or(net::NetAddress());
  host.port = 0;
  context_.warnings->say("connections are refused for a certificate",
                         fmt::format("{} ({})", to_text(host), link_.stream().failure()),
                         fmt::format("{}: {}", machine_.replica(), link_.why().message()));
}

// A connection that only ends is no offence, but in the middle of a handshake.
void Session::break_off(MessageLink::Progress progress, double now) {
  const bool is_in_handshake = context_.tls != nullptr && !is_secured_ &&
                               link_.heard_bytes() > 0;  // else: a probe of the port
  if (!is_in_handshake && progress == MessageLink::Progress::kClosed) return drop(link_.why());
  machine_.on_broken(link_.why(),
                     is_in_handshake ? RefusalReason::kHandshake : RefusalReason::kMalformed, now);
  carry_out();
}

// False: the session is over.
bool Session::note_secured() {
  const net::SecureSocket& stream = link_.stream();
  if (is_secured_ || !stream.is_encrypted() || !stream.is_ready()) return true;
  is_secured_ = true;
  const Result<net::SecureSocket::Exporter> exporter = stream.exporter();
  if (!exporter.ok()) {
    drop(exporter.status());
    return false;
  }
  const PeerTag peer = PeerTag::of(stream.peer_tag().value_or(0));
  const std::optional<SessionProof> proof =
      context_.prove ? context_.prove(peer, *exporter) : std::nullopt;
  if (context_.prove && !proof) {
    drop(Status(Code::kUnauthorized, "its secret is not accepted any more"));
    return false;
  }
  secret_ = peer.secret;
  machine_.on_secured(peer.role, proof);
  carry_out();
  return true;
}

void Session::tick(double now) {
  const std::uint64_t waiting =
      machine_.is_replica() ? unacknowledged_bytes(link_.socket()) : std::uint64_t{0};
  const std::uint64_t sent = link_.bytes_sent();
  const bool has_more = machine_.on_tick(sent - std::min(waiting, sent), now);
  carry_out();
  if (has_more) step(now);
}

void Session::take_feed(Result<SessionFeedRef> feed, double now) {
  machine_.on_feed(std::move(feed));
  step(now);
}

void Session::publish(double now) {
  has_news_ = false;
  if (!machine_.is_replica()) return;
  machine_.on_news(now);
  step(now);
}

void Session::call_back() {
  machine_.on_call_back();
  carry_out();
}

void Session::withdraw(const UpdateRef& update) {
  machine_.on_withdrawal(update);
  carry_out();
}

void Session::leave() {
  machine_.on_leave();
  carry_out();
}

void Session::drop(Status why) {
  machine_.drop(std::move(why));
  carry_out();
}

void Session::release() {
  if (machine_.feed() != nullptr && machine_.feed()->fan_out != nullptr)
    machine_.feed()->fan_out->leave(machine_.id());
  if (!machine_.label().name.empty()) context_.slots->give_back(machine_.label(), machine_.id());
}

}  // namespace sparcl::replication
