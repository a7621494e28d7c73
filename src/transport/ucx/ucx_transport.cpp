#include "src/transport/ucx/ucx_transport.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "src/base/caught_error.hpp"
#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/transport/posting.hpp"
#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_lanes.hpp"
#include "src/transport/ucx_needs.hpp"

namespace sparcl::transport {
namespace {

constexpr std::uint32_t kTurnsPerLook = 128;
constexpr double kMaxSleep = 0.05;  // seconds; closed channels are looked at now and then

ucs_memory_type_t memory_type(const Buffer& buffer) {
  return buffer.space() == MemorySpace::kDevice ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// UCX tells the lanes of an endpoint only once it has chosen them.
bool may_share_memory() {
  return ucx_may_use({"all", "shm", "sm", "mm", "posix", "sysv", "xpmem", "cma", "knem"});
}

// Sorted, because their order has no meaning for UCX.
std::string own_lanes() {
  const char* text = std::getenv("UCX_TLS");
  std::istringstream all(text != nullptr ? text : "all");  // UCX opens nothing with an empty one
  std::set<std::string> lanes;
  for (std::string each; std::getline(all, each, ',');)
    lanes.insert(each.starts_with('^') ? each.substr(1) : each);
  return fmt::format("{}{}", text != nullptr && *text == '^' ? "^" : "", fmt::join(lanes, ","));
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::create(int rank, int ranks,
                                                           const OutOfBandGather& gather,
                                                           const UcxOptions& options) {
  Result<std::shared_ptr<UcxWorker>> worker = UcxWorker::of_process();
  // A rank that failed still takes part, so that no rank waits for it.
  PeerCard own = PeerCard::own();
  own.lanes = own_lanes();
  Status trouble = worker.status();
  std::unique_ptr<UcxMailbox> mailbox;
  if (worker.ok()) {
    own.address = (*worker)->address();
    Result<std::unique_ptr<UcxMailbox>> opened = UcxMailbox::open(std::move(*worker), ranks);
    trouble = opened.status();
    if (opened.ok()) mailbox = std::move(*opened);
    if (mailbox != nullptr) own.first_id = mailbox->first_id();
  }
  std::unique_ptr<net::Heartbeat> heartbeat;
  if (options.heartbeat && trouble.ok()) {
    Result<std::unique_ptr<net::Heartbeat>> opened = net::Heartbeat::open(*options.heartbeat);
    trouble = opened.status();
    if (opened.ok()) heartbeat = std::move(*opened);
    if (heartbeat != nullptr) own.liveness = heartbeat->card();
  }
  own.refusal = trouble;  // which tells the other ranks
  const Result<std::vector<Bytes>> all = gather(own.serialise());
  SPARCL_RETURN_IF_ERROR(trouble);
  if (!all.ok()) return all.status();
  if (all->size() != static_cast<std::size_t>(ranks)) {
    return Status(Code::kInternalError,
                  fmt::format("{} ranks were to meet, and {} did", ranks, all->size()));
  }
  std::vector<PeerCard> cards;
  for (std::size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i].empty())
      return Status(Code::kRemoteError,
                    fmt::format("rank {} could not take part: its own error says why", i));
    Result<PeerCard> card = PeerCard::parse((*all)[i]);
    if (!card.ok()) return card.status().with_prefix(fmt::format("rank {}: ", i));
    if (!card->refusal.ok())
      return card->refusal.with_prefix(
          fmt::format("rank {} ({}) cannot take part: ", i, describe(*card)));
    if (card->first_id > kUcxIds - all->size())
      return Status(Code::kMismatch, fmt::format("rank {} has no ids for all ranks", i));
    cards.push_back(std::move(*card));
    // UCX ends a process when a process with other lanes connects to it ("asymmetric endpoint
    // configuration is not supported").
    if (cards[0].lanes != cards[i].lanes) {
      return Status(
          Code::kMismatch,
          fmt::format("UCX_TLS is {} on rank 0 and {} on rank {}: set it alike on all ranks",
                      cards[0].lanes, cards[i].lanes, i));
    }
    if (cards[0].liveness.empty() != cards[i].liveness.empty()) {
      return Status(
          Code::kMismatch,
          fmt::format("rank {} has heartbeats and rank {} has none: set SPARCL_HEARTBEAT "
                      "(config.heartbeat) alike on all ranks",
                      cards[0].liveness.empty() ? i : 0, cards[0].liveness.empty() ? 0 : i));
    }
  }
  std::unique_ptr<UcxTransport> made(
      new UcxTransport(std::move(mailbox), rank, std::move(cards), options));
  SPARCL_RETURN_IF_ERROR(made->begin(std::move(heartbeat)));
  return made;
}

UcxTransport::UcxTransport(std::unique_ptr<UcxMailbox> mailbox, int rank,
                           std::vector<PeerCard> cards, const UcxOptions& options)
    : mailbox_(std::move(mailbox)),
      rank_(rank),
      options_(options),
      may_share_memory_(may_share_memory()),
      peers_(cards.size()) {
  const Neighbourhood found = look_around(cards, rank);
  crowded_ = found.crowded;
  capabilities_.pinned_memory = true;
  capabilities_.device_memory = worker().moves_device_memory();
  capabilities_.single_node = found.on_one_machine;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].rank = static_cast<int>(i);
    peers_[i].card = std::move(cards[i]);
  }
}

// The other ranks count on this rank now. A rank that cannot begin tells them, so that they do not
// wait for its first message.
Status UcxTransport::begin(std::unique_ptr<net::Heartbeat> heartbeat) {
  Status status;
  try {
    SPARCL_FAILPOINT("init.beginning");
    status = start_heartbeat(std::move(heartbeat));
  } catch (const std::exception& error) {
    status = Status(Code::kSystemError,
                    fmt::format("heartbeats could not be started: {}", error.what()));
  }
  if (status.ok()) return status;
  Signal last;
  last.code = static_cast<std::int32_t>(status.code());
  last.culprit = rank_;
  status.message().copy(last.text.data(), last.text.size() - 1);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer != rank_) signal(peer, last);
  }
  finish_hellos();
  return status;
}

Status UcxTransport::start_heartbeat(std::unique_ptr<net::Heartbeat> heartbeat) {
  if (heartbeat == nullptr) return {};
  std::vector<Bytes> cards;
  for (const Peer& peer : peers_) cards.push_back(peer.card.liveness);
  SPARCL_RETURN_IF_ERROR(heartbeat->start(rank_, cards));
  // It leaves with its last user, because a successor may use it, too.
  heartbeat_ = std::shared_ptr<net::Heartbeat>(heartbeat.release(), [](net::Heartbeat* each) {
    each->leave();
    delete each;
  });
  capabilities_.knows_peer_death = capabilities_.survives_peer_death =
      capabilities_.has_successors = true;
  return {};
}

std::string UcxTransport::describe_peer(int peer) const {
  return peer >= 0 && peer < size() ? describe(peers_[static_cast<std::size_t>(peer)].card)
                                    : fmt::format("no rank {}", peer);
}

double UcxTransport::now() { return seconds_now(); }

// UCX's error handling excludes shared memory. With shared memory, other means detect a death.
// Without it error handling is required: UCX aborts this process when a message of a lost peer
// arrives ("ep->worker == worker").
bool UcxTransport::is_handled_by_ucx(const Peer& peer) const {
  return !may_share_memory_ ||
         peer.card.memory != peers_[static_cast<std::size_t>(rank_)].card.memory;
}

Result<UcxEndpoint*> UcxTransport::endpoint(Peer& peer) {
  if (peer.endpoint != nullptr) return peer.endpoint;
  // UCX 1.13 aborts this process if a connection is refused at once, as by a dead peer on this
  // machine.
  if (heartbeat_ != nullptr) {
    if (const std::optional<Status> dead = heartbeat_->dead(peer.rank)) return *dead;
  }
  UcxEndpoint* found = nullptr;
  const ucs_status_t created = worker().connect(peer.card.address, is_handled_by_ucx(peer), found);
  const char* const cure =
      created == UCS_ERR_UNREACHABLE
          ? " (SPARCL_INTERFACE, UCX_NET_DEVICES and UCX_TLS choose the devices that UCX uses)"
          : "";
  SPARCL_RETURN_IF_ERROR(ucx_status(created, fmt::format("rank {} ({}): connecting to it{}",
                                                         peer.rank, describe(peer.card), cure)));
  ++found->users;
  peer.endpoint = found;
  if (log_enabled(LogLevel::kDebug)) log_lanes(peer);
  return found;
}

// A line for each choice of UCX's that is new in this communicator, not for each peer.
void UcxTransport::log_lanes(const Peer& peer) {
  std::string lanes = lanes_of(peer.endpoint->handle);
  if (std::find(lanes_logged_.begin(), lanes_logged_.end(), lanes) != lanes_logged_.end()) return;
  log_debug("rank {}: UCX's lanes to rank {}: {}", rank_, peer.rank, lanes);
  lanes_logged_.push_back(std::move(lanes));
}

Result<std::unique_ptr<Transport>> UcxTransport::make_successor(int rank, int ranks,
                                                                const OutOfBandGather& gather) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<UcxTransport> made,
                          create(rank, ranks, gather, options_));
  (made)->past_heartbeats_ = past_heartbeats_;
  const bool leaves_living_out = std::any_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return peer.is_left_out && end_of(peer.rank) != PeerEnd::kSure;
  });
  if (leaves_living_out) (made)->past_heartbeats_.push_back(heartbeat_);
  return std::unique_ptr<Transport>(std::move(made));
}

UcxOperationRef UcxTransport::make(Operation::Kind kind, int peer, Channel channel, Buffer buffer) {
  UcxOperationRef operation = make_operation<UcxOperation>(kind, peer, channel, std::move(buffer));
  operation->worker = &worker();
  operation->mailbox = mailbox_.get();
  return operation;
}

// progress() does not report an operation that is done at once.
template <class Start>
void UcxTransport::post(const UcxOperationRef& operation, const Start& start) {
  if (worker().post(operation, start)) (void)settle(operation);
}

OperationRef UcxTransport::send(int peer, Channel channel, Buffer message) {
  const UcxOperationRef operation = make(Operation::Kind::kSend, peer, channel, std::move(message));
  if (refused(*operation, check_posted(*operation, *this))) return operation;
  const Lock held = worker().lock();
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  to.talked = true;
  if (!to.lost.ok() && refused(*operation, why_lost(to))) return operation;
  const Result<UcxEndpoint*> way = endpoint(to);
  if (refused(*operation, way.status())) return operation;
  operation->endpoint = *way;
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = UcxWorker::on_sent;
  param.user_data = operation.get();
  param.memory_type = memory_type(operation->buffer);
  const ucp_tag_t tag = ucx_tag(channel, to.card.first_id + static_cast<std::uint32_t>(rank_));
  post(operation, [&] {
    return ucp_tag_send_nbx((*way)->handle, operation->buffer.data(), operation->buffer.size(), tag,
                            &param);
  });
  return operation;
}

OperationRef UcxTransport::receive(int peer, Channel channel, Buffer space) {
  const UcxOperationRef operation =
      make(Operation::Kind::kReceive, peer, channel, std::move(space));
  if (refused(*operation, check_posted(*operation, *this))) return operation;
  const Lock held = worker().lock();
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.talked = true;
  // An endpoint that only the other side has made is destroyed when a read from a dead peer's
  // memory fails. UCX 1.13 then aborts this process at the next message of that peer ("ep->worker
  // == worker").
  if (from.lost.ok()) (void)endpoint(from);
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = UcxWorker::on_received;
  param.user_data = operation.get();
  param.memory_type = memory_type(operation->buffer);
  const ucp_tag_t tag = ucx_tag(channel, mailbox_->first_id() + static_cast<std::uint32_t>(peer));
  post(operation, [&] {
    return ucp_tag_recv_nbx(worker().handle(), operation->buffer.data(), operation->buffer.size(),
                            tag, kUcxWholeTag, &param);
  });
  // Messages that a lost peer sent before may be here; no more will come.
  if (!operation->done && !from.lost.ok()) {
    give_up(*operation);
    operation->status = why_lost(from);
  }
  return operation;
}

void UcxTransport::cancel(const OperationRef& operation) {
  if (operation == nullptr || operation->done) return;
  const Lock held = worker().lock();
  give_up(static_cast<UcxOperation&>(*operation));
}

// A send continues until its peer has taken it, and keeps its buffer until then.
void UcxTransport::give_up(UcxOperation& operation) {
  operation.done = true;
  operation.status = Status(Code::kInProgress, "cancelled before it was over", Scope::kRequest);
  if (operation.request != nullptr && operation.kind == Operation::Kind::kReceive) {
    ucp_request_cancel(worker().handle(), operation.request);
  }
}

// UCX has released the operation. As finish().
bool UcxTransport::settle(const UcxOperationRef& operation) {
  if (operation->done) return false;  // cancelled, or its peer is lost
  if (operation->kind == Operation::Kind::kReceive) operation->bytes = operation->received_bytes;
  Status outcome = operation->outcome == UCS_OK ? Status() : describe_end(*operation);
  if (outcome.code() == Code::kRemoteError) {
    find_first_lost(peers_[static_cast<std::size_t>(operation->peer)]);
    if (first_lost_ >= 0) outcome = peers_[static_cast<std::size_t>(first_lost_)].lost;
  }
  return finish(*operation, std::move(outcome));
}

// Returns whether this is news to the caller.
bool UcxTransport::finish(UcxOperation& operation, Status status) {
  if (operation.done) return false;
  operation.done = true;
  operation.status = std::move(status);
  return true;
}

Status UcxTransport::progress(std::vector<OperationRef>& completed) {
  Lock held = worker().try_lock();
  // Another thread advances the worker: only the news of this communicator is taken.
  const bool has_deaths = heartbeat_ != nullptr && heartbeat_->deaths() != deaths_seen_;
  if (!held.owns_lock() && (has_deaths || mailbox_->has_news())) held = worker().lock();
  if (held.owns_lock()) move_on();
  completed.insert(completed.end(), std::make_move_iterator(completed_.begin()),
                   std::make_move_iterator(completed_.end()));
  completed_.clear();
  if (!mailbox_->has_lost_words.load(std::memory_order_relaxed)) return {};
  return status_or_no_memory(
      Code::kSystemError,
      "out of memory: another rank has left in error, and there was no memory to say why",
      Scope::kComm);
}

void UcxTransport::move_on() {
  constexpr int kMaxTurns = 64;  // then the caller gets the operations that are done
  // Before UCX's news, because the heartbeat knows in which order peers ended.
  if (heartbeat_ != nullptr && heartbeat_->deaths() != deaths_seen_) look_for_deaths();
  for (int turn = 0; turn < kMaxTurns && worker().progress() != 0 && mailbox_->ended.empty();
       ++turn) {
  }
  if (mailbox_->has_news() || !newly_lost_.empty()) take_news();
  if (++turns_since_look_ >= kTurnsPerLook) drop_leftovers();
}

void UcxTransport::take_news() {
  take_words();
  take_losses();
  for (UcxOperations& ended = mailbox_->ended; !ended.empty(); ended.pop_front()) {
    if (settle(ended.front())) completed_.push_back(std::move(ended.front()));
  }
  while (!newly_lost_.empty()) {
    for (const int peer : std::vector<int>(newly_lost_))
      find_first_lost(peers_[static_cast<std::size_t>(peer)]);
    for (const int peer : std::exchange(newly_lost_, {}))
      lose(peers_[static_cast<std::size_t>(peer)]);
  }
}

// As over MPI: sleeps come late, when they are short against the wait. All figures are heuristics.
void UcxTransport::idle(std::uint64_t turns, double until_seconds) {
  constexpr double kLongestYield = 0.1;  // seconds; 30,000 turns over TCP, on an idle core
  const std::uint64_t spins = crowded_ ? 4 : 2'000;
  // Few if other threads want the core: since Linux 6.18 each yield costs its thread a slice of the
  // time due to it (40 a wait: no faster).
  const std::uint64_t yields = crowded_ ? 4 : 30'000;
  if (turns > 1 && turns < spins) return;
  const double time = now();
  if (turns <= 1) {
    idle_since_ = time;
    watch_clock_.wait_begins(time);
    return;
  }
  if (watch_clock_.is_due(time)) leave_waiting();
  if (turns < spins + yields && time < idle_since_ + kLongestYield) {
    sched_yield();
    return;
  }
  Lock held = worker().lock();
  drop_leftovers();
  if (!mailbox_->has_news()) sleep(held, std::min(until_seconds - time, kMaxSleep));
}

void UcxTransport::leave_waiting() {
  const Lock held = worker().lock();
  watch_waited_for();
}

void UcxTransport::sleep(Lock& held, double seconds) {
  worker().sleep(held, *mailbox_, seconds, heartbeat_.get(), deaths_seen_);
}

void UcxTransport::sleep(double seconds) {
  Lock held = worker().lock();
  if (!mailbox_->has_news()) sleep(held, seconds);
}

void UcxTransport::close(Channel channel) { closed_.add(channel); }

void UcxTransport::drop_leftovers() {
  turns_since_look_ = 0;
  worker().tidy();
  if (closed_.empty()) return;
  worker().drop_messages(ucx_tag(closed_.next(), mailbox_->first_id()),
                         ucx_tag_mask(mailbox_->id_count(), true));
}

}  // namespace sparcl::transport
