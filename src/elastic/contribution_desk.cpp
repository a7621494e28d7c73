#include "src/elastic/contribution_desk.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/process_name.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::elastic {
namespace {

using aggregate::Answer;
using replication::MessageType;

constexpr double kDeskTick = 0.05;          // seconds, at most between two looks
constexpr std::size_t kMaxUnenrolled = 64;  // connections
constexpr int kMessagesAtOnce = 16;         // of a peer, then others have their turn
constexpr double kFullWait = 0.2;           // seconds, while no descriptor is free

// A number for people. Whoever knows the worker's own number could enroll in its place.
std::string shown_worker(aggregate::WorkerId worker) {
  return fmt::format("{:08x}",
                     static_cast<std::uint32_t>(xxh3_64(std::as_bytes(std::span(&worker, 1)))));
}

Status check_enroll(const Enroll& enroll, const DeskOptions& options) {
  if (enroll.protocol != kWorkerProtocol)
    return Status(Code::kUnsupported,
                  fmt::format("it speaks version {} of the protocol of workers, and this "
                              "aggregator version {}: use the same version of sparcl",
                              enroll.protocol, kWorkerProtocol));
  if (enroll.model_id != options.model_id)
    return Status(Code::kMismatch, fmt::format("it contributes to model \"{}\", and this "
                                               "aggregator has model \"{}\"",
                                               enroll.model_id, options.model_id));
  if (enroll.schema_hash != options.schema_hash)
    return Status(Code::kMismatch,
                  "its tensors differ from this aggregator's in names, types, shapes or order");
  return {};
}

}  // namespace

Result<std::unique_ptr<ContributionDesk>> ContributionDesk::create(
    const kernels::KernelSet& kernels, DeskOptions options, replication::Listener listener,
    std::span<const Remembered> past) {
  std::unique_ptr<ContributionDesk> made(new ContributionDesk(kernels, std::move(options)));
  SPARCL_ASSIGN_OR_RETURN(made->wake_, net::WakeEvent::create());
  made->address_ = listener.address;
  made->listener_ = std::move(listener);
  for (const Remembered& each : past) made->round_.remember(each.id, each.in_round);
  ContributionDesk* const it = made.get();
  SPARCL_RETURN_IF_ERROR(made->thread_.start(
      "an aggregator", [it](const net::ServiceThread::Stop& stop) { it->serve(stop); }));
  return made;
}

ContributionDesk::ContributionDesk(const kernels::KernelSet& kernels, DeskOptions options)
    : kernels_(kernels),
      options_(std::move(options)),
      name_(replication::process_name()),
      clock_(net::clock_slack_s(options_.silence_s)),
      round_(options_.round, options_.first_round) {}

ContributionDesk::~ContributionDesk() { (void)thread_.stop(); }

// --- the owner's thread ---

ContributionDesk::Turn ContributionDesk::wait(double seconds) {
  std::unique_lock lock(mutex_);
  const auto is_new = [&] {
    return !arrivals_.empty() || (round_.is_closed() && told_closing_ != round_.number());
  };
  (void)changed_.wait_for(lock, std::chrono::duration<double>(seconds), is_new);
  Turn turn;
  while (!arrivals_.empty()) {
    held_bytes_ -= arrivals_.front().part.size();
    turn.arrivals.push_back(std::move(arrivals_.front()));
    arrivals_.pop_front();
  }
  turn.is_closed = round_.is_closed();
  if (turn.is_closed) {
    turn.closing = round_.closing();
    told_closing_ = round_.number();
  }
  wake_.wake();  // there is room for other contributions
  return turn;
}

void ContributionDesk::committed() {
  const std::lock_guard lock(mutex_);
  const aggregate::Closing closing = round_.closing();
  round_.committed();
  counts_.committed += closing.listed.size();
  for (const aggregate::Listed& each : closing.listed) counts_.late += each.rounds_late > 0 ? 1 : 0;
  tell_closing(closing, {Answer::Kind::kCommitted, closing.round, false, {}, {}});
}

void ContributionDesk::failed(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const aggregate::Closing closing = round_.closing();
  round_.failed(reason);
  counts_.refused += closing.listed.size();
  tell_closing(closing, {Answer::Kind::kRefused, closing.round, false, reason, {}});
}

void ContributionDesk::tell_closing(const aggregate::Closing& closing, const Answer& answer) {
  counts_.expelled += closing.expelled.size();
  for (const aggregate::WorkerId worker : closing.expelled)
    log_warn("aggregate: worker {} did not contribute to round {} by the deadline",
             shown_worker(worker), closing.round);
  for (const aggregate::Listed& each : closing.listed) tell(each.id, answer);
  // One that was awaited and is still there is awaited again.
  for (const auto& peer : peers_) {
    if (peer->is_enrolled() && !peer->is_over() && !peer->is_resting)
      (void)round_.join(*peer->worker);
  }
  changed_.notify_all();
  wake_.wake();
}

void ContributionDesk::tell(const aggregate::ContributionId& id, const Answer& answer) {
  for (const auto& peer : peers_) {
    if (peer->worker == id.worker && !peer->is_over())
      peer->send(MessageType::kFate, FateTold{id.round, answer.kind, answer.round, answer.reason});
  }
}

std::uint32_t ContributionDesk::listed() const {
  const std::lock_guard lock(mutex_);
  return round_.listed();
}

std::string ContributionDesk::status() const {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

std::string ContributionDesk::status_locked() const {
  const double now = clock_.now();
  replication::ReportFields report{{"aggregator", name_},
                                   {"model_id", options_.model_id},
                                   {"address", address_},
                                   {"results", options_.results},
                                   {"round", round_.number()},
                                   {"listed", round_.listed()},
                                   {"committed", counts_.committed},
                                   {"late", counts_.late},
                                   {"refused", counts_.refused},
                                   {"expelled", counts_.expelled},
                                   {"held_bytes", held_bytes_}};
  replication::ReportText text(report, "workers");
  std::uint64_t left_out = 0;
  for (const auto& peer : peers_) {
    if (!peer->is_enrolled() || peer->is_over()) continue;
    const bool has_come = round_.find({*peer->worker, round_.number()}).has_value();
    const bool is_added = text.add({{"name", replication::shown_name(peer->name)},
                                    {"worker", shown_worker(*peer->worker)},
                                    {"state", peer->incoming     ? "sending"
                                              : peer->is_resting ? "resting"
                                              : has_come         ? "waiting"
                                                                 : "training"},
                                    {"bytes_received", peer->bytes_received()},
                                    {"silent_s", peer->silent_s(now)}});
    left_out += is_added ? 0 : 1;
  }
  return text.text(left_out);
}

// --- the service's thread ---

void ContributionDesk::serve(const net::ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    try {
      turn(stop, entries);
    } catch (const std::bad_alloc&) {  // later there may be some
      pollfd entry{stop.fd(), POLLIN, 0};
      (void)net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + kFullWait);
    }
  }
  const std::lock_guard lock(mutex_);
  for (const auto& peer : peers_) {
    if (!peer->is_over()) peer->leave();
  }
}

void ContributionDesk::turn(const net::ServiceThread::Stop& stop, std::vector<pollfd>& entries) {
  {
    const std::lock_guard lock(mutex_);
    entries.assign({{stop.fd(), POLLIN, 0},
                    {wake_.fd(), POLLIN, 0},
                    {clock_.now() >= accept_from_ ? listener_.socket.fd() : -1, POLLIN, 0}});
    for (const auto& peer : peers_) entries.push_back({peer->fd(), peer->events(), 0});
  }
  const double begun = clock_.look();
  clock_.poll(entries, begun + kDeskTick);
  if (entries[1].revents != 0) wake_.drain();
  const double now = clock_.look();
  const std::lock_guard lock(mutex_);
  const std::size_t known = peers_.size();
  for (std::size_t i = 0; i < known; ++i) {
    if (entries[3 + i].revents != 0 || peers_[i]->has_unread()) step(*peers_[i], now);
  }
  if (entries[2].revents != 0) accept_all(now);
  for (const auto& peer : peers_) tick(*peer, now);
  std::erase_if(peers_, [this](const auto& peer) {
    if (peer->is_over()) end_of(*peer);
    return peer->is_over();
  });
  round_.advance(now);
  if (!arrivals_.empty() || round_.is_closed()) changed_.notify_all();
}

void ContributionDesk::accept_all(double now) {
  if (options_.security.tls != nullptr) options_.security.tls->look_again();
  while (true) {
    net::SocketAddress from;
    net::Socket socket(
        ::accept4(listener_.socket.fd(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EAGAIN && error != EWOULDBLOCK) accept_from_ = now + kFullWait;
      return;
    }
    std::size_t unenrolled = 0;
    WorkerPeer* oldest = nullptr;
    for (const auto& peer : peers_) {
      if (peer->is_enrolled() || peer->is_over()) continue;
      ++unenrolled;
      if (oldest == nullptr || peer->age_s(now) > oldest->age_s(now)) oldest = peer.get();
    }
    if (unenrolled >= kMaxUnenrolled)
      oldest->drop(Status(Code::kTimeout, "others wait, and it says nothing"));
    peers_.push_back(std::make_unique<WorkerPeer>(
        std::move(socket), net::from_socket_address(from.get()), options_.security, now));
  }
}

// Memory that runs out ends this connection, and no other: its worker comes again.
void ContributionDesk::step(WorkerPeer& peer, double now) try {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const std::optional<MessageType> type = peer.receive(now);
    if (!type) return;
    if (*type == MessageType::kBye) return peer.drop({});
    const Status status = handle(peer, *type, now);
    if (status.ok()) continue;
    log_warn("aggregate: {} is refused: {}", peer.who(), status.message());
    return peer.refuse(status);
  }
} catch (const std::bad_alloc&) {
  peer.drop(no_memory());
}

Status ContributionDesk::handle(WorkerPeer& peer, MessageType type, double now) {
  if (type == MessageType::kStatusQuery) {
    peer.send_text(MessageType::kStatusReply, status_locked());
    return {};
  }
  if (type == MessageType::kEnroll && !peer.is_enrolled()) return enroll(peer);
  if (peer.is_enrolled()) {
    switch (type) {
      case MessageType::kAlive:
        return {};
      case MessageType::kContribution:
        return take_offer(peer);
      case MessageType::kChunk:
        return take_bytes(peer, now);
      case MessageType::kRest:
        peer.is_resting = true;
        round_.leave(*peer.worker);
        return {};
      default:
        break;
    }
  }
  return corrupt(fmt::format("a message of type {} is out of place here", static_cast<int>(type)));
}

Status ContributionDesk::enroll(WorkerPeer& peer) {
  if (!peer.may(trust::Role::kReplicate))
    return Status(Code::kUnauthorized,
                  "its secret or certificate is of role observe: a worker needs role replicate");
  SPARCL_ASSIGN_OR_RETURN(const Enroll enroll, parse_enroll(peer.content()));
  SPARCL_RETURN_IF_ERROR(check_enroll(enroll, options_));
  std::size_t enrolled = 0;
  for (const auto& other : peers_) {
    if (other->worker == enroll.worker) {  // it has connected again
      other->worker.reset();
      if (!other->is_over())
        other->drop(Status(Code::kRemoteError, "its worker has connected again"));
    }
    enrolled += other->is_enrolled() && !other->is_over() ? 1 : 0;
  }
  if (enrolled >= options_.max_workers)
    return Status(Code::kRemoteError,
                  fmt::format("there are {} workers already: no more are taken", enrolled));
  peer.worker = enroll.worker;
  peer.name = enroll.name;
  peer.silence_ms = enroll.silence_ms;
  (void)round_.join(enroll.worker);
  peer.send(MessageType::kEnrolled,
            Enrolled{kWorkerProtocol, round_.number(), replication::to_ms(options_.silence_s),
                     name_, options_.results});
  log_info("aggregate: worker {} takes part: {}", shown_worker(enroll.worker), peer.who());
  return {};
}

Status ContributionDesk::take_offer(WorkerPeer& peer) {
  SPARCL_ASSIGN_OR_RETURN(const Offered offered, parse_offered(peer.content()));
  const std::uint64_t most = max_contribution_bytes(options_.run, options_.count);
  if (offered.bytes == 0 || offered.bytes > most)
    return corrupt(fmt::format("a contribution of {} bytes, where at most {} can be of use",
                               offered.bytes, most));
  if (peer.incoming) return corrupt("a contribution is offered while another one comes");
  if (const std::optional<Answer> known = round_.find({*peer.worker, offered.round})) {
    peer.send(MessageType::kFate,
              FateTold{offered.round, known->kind, known->round, known->reason});
    return {};
  }
  if (std::exchange(peer.is_resting, false)) (void)round_.join(*peer.worker);
  peer.incoming.emplace().offered = offered;
  ask_for_bytes(peer);
  return {};
}

// While there is room. One contribution has room always.
void ContributionDesk::ask_for_bytes(WorkerPeer& peer) {
  const std::uint64_t bytes = peer.incoming->offered.bytes;
  if (held_bytes_ > 0 && held_bytes_ + bytes > options_.held_bytes) return;
  held_bytes_ += bytes;
  peer.incoming->is_wanted = true;
  peer.incoming->moved_at = clock_.now();
  peer.send(MessageType::kWanted, Wanted{peer.incoming->offered.round});
}

Status ContributionDesk::take_bytes(WorkerPeer& peer, double now) {
  if (!peer.incoming) return corrupt("bytes of a contribution came that was not offered");
  SPARCL_RETURN_IF_ERROR(peer.take_chunk(now));
  Incoming& coming = *peer.incoming;
  if (coming.have < coming.offered.bytes) return {};
  const Offered offered = coming.offered;
  const Buffer bytes = coming.whole();
  held_bytes_ -= offered.bytes;
  peer.incoming.reset();
  SPARCL_ASSIGN_OR_RETURN(Buffer part,
                          unpack(buffers_, kernels_, options_.run, options_.count, offered, bytes));
  const std::vector<float> values =
      values_of(kernels_, options_.run, part.bytes(), value_type(offered));
  Arrival arrival{{}, aggregate::facts_of(values), std::move(part), value_type(offered)};
  aggregate::Contribution given{
      {*peer.worker, offered.round}, round_.join(*peer.worker), offered.weight, {}};
  if (options_.refuses_non_finite && arrival.facts.not_finite > 0)
    given.fault = fmt::format("{} of its {} values are NaN or infinite", arrival.facts.not_finite,
                              values.size());
  // It has its place before it is listed: what is listed is summed, whatever memory runs out.
  arrivals_.push_back(std::move(arrival));
  const Answer answer = round_.offer(given, now);
  if (answer.kind == Answer::Kind::kRefused) ++counts_.refused;
  if (answer.is_new) {
    arrivals_.back().listed = answer.listed;
    held_bytes_ += arrivals_.back().part.size();
  } else {
    arrivals_.pop_back();
  }
  peer.send(MessageType::kFate, FateTold{offered.round, answer.kind, answer.round, answer.reason});
  return {};
}

void ContributionDesk::tick(WorkerPeer& peer, double now) {
  if (peer.is_over()) return;
  if (peer.silent_s(now) > options_.silence_s)
    return peer.drop(
        Status(Code::kTimeout, fmt::format("it has been silent for {:g} s", options_.silence_s)));
  if (peer.incoming && peer.incoming->is_wanted &&
      now - peer.incoming->moved_at > options_.silence_s)
    return peer.drop(Status(Code::kTimeout, fmt::format("no byte of its contribution has come for "
                                                        "{:g} s",
                                                        options_.silence_s)));
  if (peer.incoming && !peer.incoming->is_wanted) ask_for_bytes(peer);
  peer.tick(round_.number(), now);
}

void ContributionDesk::end_of(WorkerPeer& peer) {
  if (peer.incoming && peer.incoming->is_wanted) held_bytes_ -= peer.incoming->offered.bytes;
  if (!peer.worker) return;
  log_info("aggregate: worker {} is gone: {}{}{}", shown_worker(*peer.worker), peer.who(),
           peer.why_over().ok() ? "" : ": ", peer.why_over().message());
  round_.leave(*peer.worker);
}

}  // namespace sparcl::elastic
