#include "src/elastic/contribution_desk.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/replication/peer_scores.hpp"
#include "src/replication/process_name.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::elastic {
namespace {

using replication::MessageType;

constexpr double kDeskTick = 0.05;           // seconds, at most between two looks
constexpr std::ptrdiff_t kMaxOutside = 256;  // connections before ENROLL, and before JOIN
constexpr double kOutsideShare = 0.5;  // of the time of silence that each of them has; heuristic
constexpr int kAcceptsAtOnce = 64;     // connections, then peers have their turn
constexpr int kMessagesAtOnce = 16;    // of a peer, then others have their turn
constexpr std::uint64_t kMinHeldBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxRefusalBytes = 500;  // shown of why a connection was refused
constexpr double kFullWait = 0.2;              // seconds, while no descriptor is free

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

Status check_role(const WorkerPeer& peer, const Enroll& enroll) {
  if (enroll.is_aggregator && !peer.may(trust::Role::kPublish))
    return Status(Code::kUnauthorized,
                  "its secret or certificate is not of role publish: an aggregator needs it");
  if (peer.may(trust::Role::kReplicate)) return {};
  return Status(Code::kUnauthorized,
                "its secret or certificate is of role observe: a worker needs role replicate");
}

Status too_many() { return Status(Code::kRemoteError, "too many connect at once: connect again"); }

}  // namespace

std::uint64_t default_held_bytes(std::uint64_t elements) {
  return std::max(4 * elements * sizeof(float), kMinHeldBytes);
}

std::string shown_worker(aggregate::WorkerId worker) {
  return fmt::format("{:08x}",
                     static_cast<std::uint32_t>(xxh3_64(std::as_bytes(std::span(&worker, 1)))));
}

ContributionDesk::ContributionDesk(const kernels::KernelSet& kernels, DeskOptions options)
    : kernels_(kernels),
      options_(std::move(options)),
      name_(replication::process_name()),
      clock_(net::clock_slack_s(options_.silence_s)) {}

Status ContributionDesk::start(replication::Listener listener) {
  SPARCL_ASSIGN_OR_RETURN(wake_, net::WakeEvent::create());
  address_ = listener.address;
  listener_ = std::move(listener);
  return thread_.start("an aggregator",
                       [this](const net::ServiceThread::Stop& stop) { serve(stop); });
}

std::string ContributionDesk::status() const {
  const std::lock_guard lock(mutex_);
  return status_locked();
}

std::string ContributionDesk::status_locked() const {
  const double now = clock_.now();
  replication::ReportFields fields = report();
  fields["held_bytes"] = held_bytes_;
  fields["waiting_bytes"] = options_.waiting ? options_.waiting->memory.load() : 0;
  fields["spilled_bytes"] = options_.waiting ? options_.waiting->files.load() : 0;
  fields["refused_connections"] = refused_connections_;
  fields["last_refusal"] = last_refusal_;
  fields["last_refusal_age_s"] = refused_connections_ > 0 ? now - refused_at_ : 0;
  replication::ReportText text(fields, "workers");
  std::uint64_t left_out = 0;
  for (const auto& [worker, member] : members_) {
    const WorkerPeer& peer = *member.peer;
    const bool is_direct = !peer.is_branch();
    const bool is_added = text.add({{"name", replication::shown_name(member.name)},
                                    {"worker", shown_worker(worker)},
                                    {"state", is_direct && peer.incoming ? "sending"
                                              : !member.is_awaited       ? "resting"
                                              : has_come(member)         ? "waiting"
                                                                         : "training"},
                                    {"branch", is_direct ? "" : replication::shown_name(peer.name)},
                                    {"bytes_received", is_direct ? peer.bytes_received() : 0},
                                    {"silent_s", peer.silent_s(now)}});
    left_out += is_added ? 0 : 1;
  }
  return text.text(left_out);
}

// --- for what is built on it ---

ContributionDesk::Member* ContributionDesk::member_of(WorkerPeer& peer,
                                                      aggregate::WorkerId worker) {
  const auto found = members_.find(worker);
  return found == members_.end() || found->second.peer != &peer ? nullptr : &found->second;
}

void ContributionDesk::answer(const Given& given, const Verdict& verdict) {
  if (given.branch == kNoBranch) return tell(given.worker, verdict.fate);
  WorkerPeer* const peer = branch(given.branch);
  if (peer != nullptr) peer->send(MessageType::kVerdict, verdict);
}

void ContributionDesk::tell(aggregate::WorkerId worker, const FateTold& fate) {
  const auto found = members_.find(worker);
  if (found == members_.end() || found->second.peer->is_over()) return;
  WorkerPeer& peer = *found->second.peer;
  if (!peer.is_branch())
    peer.send(MessageType::kFate, fate);
  else
    peer.send(MessageType::kVerdict, Verdict{worker, false, 0, 1, 1, fate});
}

void ContributionDesk::turn_away(aggregate::WorkerId worker, const Status& why) {
  const auto found = members_.find(worker);
  if (found == members_.end()) return;
  WorkerPeer& peer = *found->second.peer;
  const bool is_own = !peer.is_branch();
  if (!peer.is_over() && !is_own)
    peer.send(MessageType::kTurnedAway, TurnedAway{worker, why.code(), why.message()});
  if (!peer.is_over() && is_own) {
    peer.refuse(why);
    peer.worker.reset();
  }
  members_.erase(found);  // last: if memory runs out, it is still a member
}

// Ends the part of a worker, which learns why. No round waits for it.
void ContributionDesk::expel(aggregate::WorkerId worker, const Status& why) {
  leave(members_.at(worker), true);
  turn_away(worker, why);
}

// Turns away workers that must not take part any more.
void ContributionDesk::check_members() {
  std::vector<std::pair<aggregate::WorkerId, Status>> gone;
  for (const auto& [worker, member] : members_) {
    const Status status = check_member(member);
    if (!status.ok()) gone.emplace_back(worker, status);
  }
  for (const auto& [worker, why] : gone) expel(worker, why);
  must_check_members_ = false;
}

void ContributionDesk::drop_all(const Status& why) {
  for (const auto& peer : peers_) {
    if ((peer->is_enrolled() || peer->enroll) && !peer->is_over()) peer->refuse(why);
  }
  wake_.wake();
}

std::vector<Arrival> ContributionDesk::take_arrivals() {
  std::vector<Arrival> taken;
  taken.reserve(arrivals_.size());
  for (Arrival& each : arrivals_) {
    held_bytes_ -= each.part.size();
    taken.push_back(std::move(each));
  }
  arrivals_.clear();
  if (!taken.empty()) wake_.wake();  // there is room for other contributions
  return taken;
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
  must_check_members_ = look_at_files(now) || must_check_members_;
  const std::lock_guard lock(mutex_);
  if (must_check_members_) check_members();
  const std::size_t known = peers_.size();
  for (std::size_t i = 0; i < known; ++i) {
    if (entries[3 + i].revents != 0 || peers_[i]->has_unread()) step(*peers_[i], now);
  }
  if (entries[2].revents != 0) accept_all(now);
  serve_waiting(now);
  for (const auto& peer : peers_) tick(*peer, now);
  bury();
  turned(now);
}

// The end of one connection may end others. If memory runs out, the next turn tries again.
void ContributionDesk::bury() {
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const auto& peer : peers_) {
      if (!peer->is_over() || peer->has_ended) continue;
      end_of(*peer);
      peer->has_ended = true;
      is_done = false;
    }
  }
  std::erase_if(peers_, [](const auto& peer) { return peer->has_ended; });
}

void ContributionDesk::accept_all(double now) {
  if (options_.security.tls != nullptr) options_.security.tls->look_again();
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    net::SocketAddress from;
    net::Socket socket(
        ::accept4(listener_.socket.fd(), from.get(), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.is_open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error != EAGAIN && error != EWOULDBLOCK) accept_from_ = now + kFullWait;
      return;
    }
    const std::optional<net::NetAddress> address = net::from_socket_address(from.get());
    const std::string host = replication::PeerScores::key_of(address);
    if (make_place(host, &WorkerPeer::is_stranger, now))
      peers_.push_back(
          std::make_unique<WorkerPeer>(std::move(socket), address, options_.security, now));
    else
      note_refusal(host, too_many());
  }
}

// Whether there is a place for one more of a kind that does not take part. Once all are taken, one
// of the host with most of them ends, the oldest: of another host at once, of the newcomer's own
// when it is old.
bool ContributionDesk::make_place(const std::string& host, bool (WorkerPeer::*is_of_kind)() const,
                                  double now) {
  const auto is_one = [&](const auto& peer) { return ((*peer).*is_of_kind)() && !peer->is_over(); };
  if (std::ranges::count_if(peers_, is_one) < kMaxOutside) return true;
  std::map<std::string, std::vector<WorkerPeer*>> hosts;
  for (const auto& peer : peers_) {
    if (is_one(peer)) hosts[peer->host()].push_back(peer.get());
  }
  const auto age = [now](const WorkerPeer* peer) { return peer->outside_s(now); };
  const auto rank = [&](const auto& each) {
    return std::pair(each.second.size(), age(*std::ranges::max_element(each.second, {}, age)));
  };
  const auto& most = std::ranges::max_element(hosts, {}, rank)->second;
  WorkerPeer& oldest = **std::ranges::max_element(most, {}, age);
  const bool is_crowd = most.size() > hosts[host].size() + 1;
  if (!is_crowd && age(&oldest) < kOutsideShare * options_.silence_s) return false;
  const Status why(Code::kTimeout, "others wait, and it does not take part");
  note_refusal(oldest.who(), why);
  oldest.drop(why);
  return true;
}

// Memory that runs out ends this connection, and no other: its worker comes again.
void ContributionDesk::step(WorkerPeer& peer, double now) try {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const std::optional<MessageType> type = peer.receive(now);
    if (!type) return;
    if (*type == MessageType::kBye) return peer.drop({});
    const Status status = handle(peer, *type, now);
    if (status.ok()) continue;
    note_refusal(peer.who(), status);
    return peer.refuse(status);
  }
} catch (const std::bad_alloc&) {
  peer.drop(no_memory());
}

void ContributionDesk::note_refusal(const std::string& who, const Status& why) {
  ++refused_connections_;
  refused_at_ = clock_.now();
  last_refusal_ = why.message().substr(0, kMaxRefusalBytes);
  const std::uint64_t times = refusals_.count(why.message(), clock_.now());  // it may come again
  if (times > 0) log_warn("aggregate: {} is refused: {}{}", who, why.message(), times_text(times));
}

Status ContributionDesk::handle(WorkerPeer& peer, MessageType type, double now) {
  if (type == MessageType::kStatusQuery && !peer.is_joining()) {
    peer.send_text(MessageType::kStatusReply, status_locked());
    return {};
  }
  if (type == MessageType::kEnroll && !peer.is_enrolled() && !peer.enroll) return enroll(peer);
  if (type == MessageType::kJoin && peer.is_joining()) return join_worker(peer);
  if (type == MessageType::kAlive && peer.is_enrolled()) return {};
  if (peer.worker) return handle_worker(peer, type, now);
  if (peer.is_branch()) return handle_branch(peer, type, now);
  if (type == MessageType::kHello || type == MessageType::kModelQuery)
    return corrupt(
        "a replica connects where workers contribute: give it the address of the results, that of "
        "sparcl aggregate --publish");
  return replication::out_of_place(type);
}

Status ContributionDesk::handle_worker(WorkerPeer& peer, MessageType type, double now) {
  switch (type) {
    case MessageType::kContribution:
      return take_offer(peer);
    case MessageType::kChunk:
      return take_bytes(peer, now);
    case MessageType::kRest:
      rest(peer, *peer.worker);
      return {};
    default:
      return replication::out_of_place(type);
  }
}

// --- who takes part ---

Status ContributionDesk::enroll(WorkerPeer& peer) {
  SPARCL_RETURN_IF_ERROR(check_open());
  SPARCL_ASSIGN_OR_RETURN(const Enroll enroll, parse_enroll(peer.content()));
  SPARCL_RETURN_IF_ERROR(check_enroll(enroll, options_));
  SPARCL_RETURN_IF_ERROR(check_role(peer, enroll));
  peer.name = enroll.name;
  peer.silence_ms = enroll.silence_ms;
  if (enroll.is_aggregator) {
    peer.branch = ++last_branch_;
    peer.send(MessageType::kEnrolled, enrolled());
    log_info("aggregate: a branch takes part: {}", peer.who());
    return {};
  }
  if (!make_place(peer.host(), &WorkerPeer::is_joining, clock_.now())) return too_many();
  peer.enroll = enroll;
  peer.enrolled_at = clock_.now();
  peer.send(MessageType::kNonce, NonceTold{enrolled().nonce});
  return {};
}

Status ContributionDesk::join_worker(WorkerPeer& peer) {
  SPARCL_RETURN_IF_ERROR(check_open());
  SPARCL_ASSIGN_OR_RETURN(Join told, parse_join(peer.content()));
  const Enroll& enroll = *peer.enroll;
  SPARCL_RETURN_IF_ERROR(
      add_member({enroll.worker, {enroll.number, kNoBranch}, enroll.name, &peer, std::move(told)}));
  peer.worker = enroll.worker;
  peer.send(MessageType::kEnrolled, enrolled());
  log_info("aggregate: worker {} takes part: {}", shown_worker(enroll.worker), peer.who());
  return {};
}

Status ContributionDesk::try_join(const Member& member) try {
  return join(member);
} catch (const std::bad_alloc&) {
  return no_memory();
}

// One that has connected again takes part by its new connection.
Status ContributionDesk::add_member(Member member) {
  std::map<aggregate::WorkerId, Member> made;  // its memory is there before anybody waits for it
  const Member& joining = made.emplace(member.worker, std::move(member)).first->second;
  const auto known = members_.find(joining.worker);
  if (known == members_.end() && members_.size() >= options_.max_workers)
    return Status(Code::kRemoteError,
                  fmt::format("there are {} workers already: no more are taken", members_.size()));
  SPARCL_RETURN_IF_ERROR(check_member(joining));
  if (known != members_.end() && known->second.peer != joining.peer)
    turn_away(joining.worker, Status(Code::kRemoteError, "its worker has connected again"));
  if (Status joined = try_join(joining); !joined.ok()) {
    leave(joining, true);  // of its last connection
    return joined;
  }
  members_.erase(joining.worker);
  members_.merge(made);
  return {};
}

void ContributionDesk::rest(WorkerPeer& peer, aggregate::WorkerId worker) {
  Member* const member = member_of(peer, worker);
  if (member == nullptr || !std::exchange(member->is_awaited, false)) return;
  leave(*member, false);
}

// --- the time and the end of a connection ---

void ContributionDesk::tick(WorkerPeer& peer, double now) {
  if (peer.is_over()) return;
  if (peer.silent_s(now) > options_.silence_s)
    return peer.drop(
        Status(Code::kTimeout, fmt::format("it has been silent for {:g} s", options_.silence_s)));
  if (peer.incoming && peer.incoming->is_wanted &&
      now - peer.incoming->moved_at > options_.silence_s)
    return peer.drop(
        Status(Code::kTimeout, fmt::format("its contribution or sum comes with less than {} KiB in "
                                           "{:g} s",
                                           WorkerPeer::kMinMove >> 10, options_.silence_s)));
  if (peer.is_joining() && peer.outside_s(now) > options_.silence_s)
    return peer.drop(Status(Code::kTimeout, fmt::format("it has said ENROLL and no JOIN within "
                                                        "{:g} s",
                                                        options_.silence_s)));
  peer.tick(open_round(), now);
}

void ContributionDesk::end_of(WorkerPeer& peer) {
  if (!peer.is_enrolled() && !peer.incoming) return;
  if (!peer.is_branch() && peer.incoming && peer.incoming->is_wanted)
    held_bytes_ -= peer.incoming->offered.bytes;
  peer.incoming.reset();
  const std::string why =
      peer.why_over().ok() ? "" : fmt::format(": {}", peer.why_over().message());
  const bool has_left = peer.why_over().ok();
  const std::uint64_t times =
      has_left ? 0 : departures_.count(peer.why_over().message(), clock_.now());
  if (peer.worker)
    log_at(times > 0 ? LogLevel::kWarn : LogLevel::kInfo, "aggregate: worker {} is gone: {}{}{}",
           shown_worker(*peer.worker), peer.who(), why, times > 1 ? times_text(times) : "");
  if (peer.is_branch())
    log_at(has_left ? LogLevel::kInfo : LogLevel::kWarn, "aggregate: a branch is gone: {}{}",
           peer.who(), why);
  // First its contributions are withdrawn: else the round could end with them once its workers are
  // not awaited any more.
  if (peer.is_branch()) lose(peer.branch);
  for (auto each = members_.begin(); each != members_.end();) {
    if (each->second.peer != &peer) {
      ++each;
      continue;
    }
    leave(each->second, true);
    each = members_.erase(each);
  }
}

}  // namespace sparcl::elastic
