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
#include <thread>
#include <utility>

#include "src/base/failpoint.hpp"
#include "src/base/log.hpp"
#include "src/transport/posting.hpp"
#include "src/transport/ucx/ucx_error.hpp"
#include "src/transport/ucx/ucx_lanes.hpp"
#include "src/transport/ucx/ucx_operation.hpp"
#include "src/transport/ucx_needs.hpp"

namespace sparcl {
namespace {

constexpr std::uint32_t kTurnsPerLook = 128;
constexpr std::size_t kClosedRemembered = 64;

constexpr unsigned kRankBits = 24;
constexpr int kMostRanks = 1 << kRankBits;
constexpr ucp_tag_t kWholeTag = ~ucp_tag_t{0};
constexpr ucp_tag_t kAnyRank = kWholeTag << kRankBits;

ucp_tag_t tag_of(int sender, Channel channel) {
  return (ucp_tag_t{channel.call} << (kRankBits + 8)) | (ucp_tag_t{channel.lane} << kRankBits) | static_cast<ucp_tag_t>(sender);
}

ucs_memory_type_t memory_type(const Buffer& buffer) {
  return buffer.space() == MemorySpace::kDevice ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

// UCX tells which lanes an endpoint has only once it has chosen them.
bool may_share_memory() { return ucx_may_use({"all", "shm", "sm", "mm", "posix", "sysv", "xpmem", "cma", "knem"}); }

// In one order, as UCX cares for none.
std::string own_lanes() {
  const char* text = std::getenv("UCX_TLS");
  std::istringstream all(text != nullptr ? text : "all");  // UCX opens nothing with an empty one
  std::set<std::string> lanes;
  for (std::string each; std::getline(all, each, ',');) lanes.insert(each.starts_with('^') ? each.substr(1) : each);
  return fmt::format("{}{}", text != nullptr && *text == '^' ? "^" : "", fmt::join(lanes, ","));
}

double seconds_now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::create(int rank, const OutOfBandGather& gather, const UcxOptions& options) {
  Result<std::unique_ptr<UcxWorker>> worker = UcxWorker::open();
  // A rank that failed takes part all the same, so that nobody waits for it.
  PeerCard own = PeerCard::own();
  own.lanes = own_lanes();
  Status trouble = worker.status();
  if (worker.ok()) {
    Result<Bytes> address = (*worker)->address();
    trouble = address.status();
    if (address.ok()) own.address = std::move(*address);
  }
  std::unique_ptr<Heartbeat> heartbeat;
  if (options.heartbeat && trouble.ok()) {
    Result<std::unique_ptr<Heartbeat>> opened = Heartbeat::open(*options.heartbeat);
    trouble = opened.status();
    if (opened.ok()) heartbeat = std::move(*opened);
    if (heartbeat != nullptr) own.liveness = heartbeat->card();
  }
  own.refusal = trouble;  // which tells the others
  const Result<std::vector<Bytes>> all = gather(own.serialise());
  SPARCL_RETURN_IF_ERROR(trouble);
  if (!all.ok()) return all.status();
  if (all->size() > kMostRanks)
    return Status(Code::kUnsupported, fmt::format("the ucx transport takes up to {} ranks", kMostRanks));
  std::vector<PeerCard> cards;
  for (std::size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i].empty()) return Status(Code::kRemoteError, fmt::format("rank {} could not take part: its own error says why", i));
    Result<PeerCard> card = PeerCard::parse((*all)[i]);
    if (!card.ok()) return card.status().with_prefix(fmt::format("rank {}: ", i));
    if (!card->refusal.ok()) return card->refusal.with_prefix(fmt::format("rank {} ({}) cannot take part: ", i, describe(*card)));
    cards.push_back(std::move(*card));
    // UCX ends a process that is connected to by one with other lanes ("asymmetric endpoint configuration is not supported").
    if (cards[0].lanes != cards[i].lanes) {
      return Status(Code::kMismatch, fmt::format("UCX_TLS is {} on rank 0 and {} on rank {}: set it alike on all ranks",
                                                 cards[0].lanes, cards[i].lanes, i));
    }
    if (cards[0].liveness.empty() != cards[i].liveness.empty()) {
      return Status(Code::kMismatch,
                    fmt::format("rank {} has heartbeats and rank {} has none: set SPARCL_HEARTBEAT (config.heartbeat) "
                                "alike on all ranks",
                                cards[0].liveness.empty() ? i : 0, cards[0].liveness.empty() ? 0 : i));
    }
  }
  std::unique_ptr<UcxTransport> made(new UcxTransport(std::move(*worker), rank, std::move(cards), options));
  SPARCL_RETURN_IF_ERROR(made->begin(std::move(heartbeat)));
  return made;
}

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, int rank, std::vector<PeerCard> cards, const UcxOptions& options)
    : worker_(std::move(worker)), rank_(rank), options_(options), may_share_memory_(may_share_memory()), peers_(cards.size()) {
  const Neighbourhood found = look_around(cards, rank);
  crowded_ = found.crowded;
  capabilities_.pinned_memory = true;
  capabilities_.device_memory = worker_->moves_device_memory();
  capabilities_.single_node = found.on_one_machine;
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].transport = this;
    peers_[i].rank = static_cast<int>(i);
    peers_[i].card = std::move(cards[i]);
  }
}

// The others count on this rank by now: one that cannot begin tells them, so that they do not wait for its first word.
Status UcxTransport::begin(std::unique_ptr<Heartbeat> heartbeat) {
  Status status = listen_for_signals();
  try {
    SPARCL_FAILPOINT("init.beginning");
    if (status.ok()) status = start_heartbeat(std::move(heartbeat));
  } catch (const std::exception& error) {
    status = Status(Code::kSystemError, fmt::format("heartbeats could not be started: {}", error.what()));
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

Status UcxTransport::start_heartbeat(std::unique_ptr<Heartbeat> heartbeat) {
  if (heartbeat == nullptr) return {};
  std::vector<Bytes> cards;
  for (const Peer& peer : peers_) cards.push_back(peer.card.liveness);
  SPARCL_RETURN_IF_ERROR(heartbeat->start(rank_, cards));
  // It leaves when the last of those goes who have it: a successor may.
  heartbeat_ = std::shared_ptr<Heartbeat>(heartbeat.release(), [](Heartbeat* each) {
    each->leave();
    delete each;
  });
  capabilities_.knows_peer_death = capabilities_.survives_peer_death = capabilities_.has_successors = true;
  return {};
}

std::string UcxTransport::describe_peer(int peer) const {
  return peer >= 0 && peer < size() ? describe(peers_[static_cast<std::size_t>(peer)].card) : fmt::format("no rank {}", peer);
}

double UcxTransport::now() { return seconds_now(); }

// Error handling by UCX leaves shared memory out; where that is used other means tell of a death. Without shared memory it is a
// must: UCX aborts this process when a message of a peer comes that it has lost ("ep->worker == worker").
bool UcxTransport::is_handled_by_ucx(const Peer& peer) const {
  return !may_share_memory_ || peer.card.memory != peers_[static_cast<std::size_t>(rank_)].card.memory;
}

Result<ucp_ep_h> UcxTransport::endpoint(Peer& peer) {
  if (peer.endpoint != nullptr) return peer.endpoint;
  // UCX 1.13 aborts this process where a connection is refused at once, as to a dead peer on this machine.
  if (heartbeat_ != nullptr) {
    if (const std::optional<Status> dead = heartbeat_->dead(peer.rank)) return *dead;
  }
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.card.address.data());
  params.err_mode = is_handled_by_ucx(peer) ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler = {on_lost, &peer};
  const ucs_status_t created = ucp_ep_create(worker_->handle(), &params, &peer.endpoint);
  const char* const cure =
      created == UCS_ERR_UNREACHABLE ? " (SPARCL_INTERFACE, UCX_NET_DEVICES and UCX_TLS choose the devices that UCX uses)" : "";
  SPARCL_RETURN_IF_ERROR(
      ucx_status(created, fmt::format("rank {} ({}): connecting to it{}", peer.rank, describe(peer.card), cure)));
  if (log_enabled(LogLevel::kDebug)) log_lanes(peer);
  return peer.endpoint;
}

// A line for each choice of UCX's that is new in this communicator, not for each peer.
void UcxTransport::log_lanes(const Peer& peer) {
  std::string lanes = lanes_of(peer.endpoint);
  if (std::find(lanes_logged_.begin(), lanes_logged_.end(), lanes) != lanes_logged_.end()) return;
  log_debug("rank {}: UCX's lanes to rank {}: {}", rank_, peer.rank, lanes);
  lanes_logged_.push_back(std::move(lanes));
}

Result<std::unique_ptr<Transport>> UcxTransport::make_successor(int rank, const OutOfBandGather& gather) {
  Result<std::unique_ptr<UcxTransport>> made = create(rank, gather, options_);
  if (!made.ok()) return made.status();
  (*made)->past_heartbeats_ = past_heartbeats_;
  const bool leaves_living_out = std::any_of(
      peers_.begin(), peers_.end(), [&](const Peer& peer) { return peer.is_left_out && end_of(peer.rank) != PeerEnd::kSure; });
  if (leaves_living_out) (*made)->past_heartbeats_.push_back(heartbeat_);
  return std::unique_ptr<Transport>(std::move(*made));
}

UcxTransport::UcxOperationRef UcxTransport::make(Operation::Kind kind, int peer, Channel channel, Buffer buffer) {
  UcxOperationRef operation = make_operation<UcxOperation>(kind, peer, channel, std::move(buffer));
  operation->transport = this;
  return operation;
}

OperationRef UcxTransport::send(int peer, Channel channel, Buffer message) {
  const UcxOperationRef operation = make(Operation::Kind::kSend, peer, channel, std::move(message));
  if (refused(*operation, check_posted(*operation, *this))) return operation;
  Peer& to = peers_[static_cast<std::size_t>(peer)];
  to.talked = true;
  if (!to.lost.ok() && refused(*operation, why_lost(to))) return operation;
  const Result<ucp_ep_h> way = endpoint(to);
  if (refused(*operation, way.status())) return operation;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = on_sent;
  param.user_data = operation.get();
  param.memory_type = memory_type(operation->buffer);
  post(operation,
       [&] { return ucp_tag_send_nbx(*way, operation->buffer.data(), operation->buffer.size(), tag_of(rank_, channel), &param); });
  return operation;
}

OperationRef UcxTransport::receive(int peer, Channel channel, Buffer space) {
  const UcxOperationRef operation = make(Operation::Kind::kReceive, peer, channel, std::move(space));
  if (refused(*operation, check_posted(*operation, *this))) return operation;
  Peer& from = peers_[static_cast<std::size_t>(peer)];
  from.talked = true;
  // An endpoint that only the other side has made is destroyed when a read from a dead peer's memory fails, and UCX 1.13 aborts
  // this process at the next message of that peer ("ep->worker == worker").
  if (from.lost.ok()) (void)endpoint(from);
  ucp_request_param_t param = {};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.cb.recv = on_received;
  param.user_data = operation.get();
  param.memory_type = memory_type(operation->buffer);
  post(operation, [&] {
    return ucp_tag_recv_nbx(worker_->handle(), operation->buffer.data(), operation->buffer.size(), tag_of(peer, channel), kWholeTag,
                            &param);
  });
  // What a lost peer sent before may lie here; more will not come.
  if (!operation->done && !from.lost.ok()) {
    cancel(operation);
    operation->status = why_lost(from);
  }
  return operation;
}

void UcxTransport::cancel(const OperationRef& operation) {
  if (operation == nullptr || operation->done) return;
  auto& own = static_cast<UcxOperation&>(*operation);
  own.done = true;
  own.status = Status(Code::kInProgress, "cancelled before it was over", Scope::kRequest);
  // A send goes on until its peer has taken it, and keeps its buffer until then.
  if (own.request != nullptr && own.kind == Operation::Kind::kReceive) ucp_request_cancel(worker_->handle(), own.request);
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* operation) {
  auto& own = *static_cast<UcxOperation*>(operation);
  own.transport->end(own, status);
  ucp_request_free(request);
}

void UcxTransport::on_received(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info, void* operation) {
  auto& own = *static_cast<UcxOperation*>(operation);
  if (status == UCS_OK) own.bytes = info->length;
  own.transport->end(own, status);
  ucp_request_free(request);
}

// UCX has let go of it.
void UcxTransport::end(UcxOperation& operation, ucs_status_t status) {
  operation.request = nullptr;
  const UcxOperationRef kept = *operation.place;
  open_.erase(operation.place);
  operation.is_open = false;
  if (kept->done) return;  // cancelled, or its peer is lost
  Status outcome = status == UCS_OK ? Status() : describe_end(operation, status);
  if (outcome.code() == Code::kRemoteError) {
    find_first_lost(peers_[static_cast<std::size_t>(operation.peer)]);
    if (first_lost_ >= 0) outcome = peers_[static_cast<std::size_t>(first_lost_)].lost;
  }
  finish(kept, std::move(outcome));
}

// UCX tells of ends in any order, and of some only by a send that fails. The heartbeat knows who was the first; its word takes a
// moment, for which is waited once.
void UcxTransport::find_first_lost(const Peer& lost) {
  constexpr double kWordSeconds = 0.3;
  if (heartbeat_ == nullptr || first_lost_ >= 0 || lost.said_farewell) return;
  const double until = seconds_now() + (std::exchange(has_awaited_word_, true) ? 0 : kWordSeconds);
  while (heartbeat_->deaths() == 0 && seconds_now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    Peer& peer = peers_[static_cast<std::size_t>(each.rank)];
    if (peer.said_farewell) continue;
    if (peer.lost.ok()) newly_lost_.push_back(peer.rank);
    peer.lost = std::move(each.status);
    first_lost_ = peer.rank;
    return;
  }
}

void UcxTransport::finish(const UcxOperationRef& operation, Status status) {
  if (operation->done) return;  // cancelled, or its peer is lost
  operation->done = true;
  operation->status = std::move(status);
  if (!operation->is_posting) completed_.push_back(operation);
}

Status UcxTransport::describe_end(const Operation& operation, ucs_status_t status) const {
  const bool is_send = operation.kind == Operation::Kind::kSend;
  if (status == UCS_ERR_MESSAGE_TRUNCATED) {
    return Status(Code::kCorrupt, fmt::format("a message from rank {} ({}) on call {} lane {} is larger than the {} bytes awaited",
                                              operation.peer, describe_peer(operation.peer), operation.channel.call,
                                              operation.channel.lane, operation.buffer.size()));
  }
  return Status(status == UCS_ERR_NO_MEMORY ? Code::kOutOfMemory : Code::kRemoteError,
                fmt::format("rank {} ({}): {} failed (UCX: {})", operation.peer, describe_peer(operation.peer),
                            is_send ? "the send to it" : "the receive from it", ucs_status_string(status)));
}

// --- moving on ---

Status UcxTransport::progress(std::vector<OperationRef>& completed) {
  constexpr int kMostTurns = 64;  // then the caller wants to see what is done
  // Before UCX's news: the heartbeat knows in which order peers ended.
  if (heartbeat_ != nullptr && heartbeat_->deaths() != deaths_seen_) look_for_deaths();
  for (int turn = 0; turn < kMostTurns && ucp_worker_progress(worker_->handle()) != 0 && completed_.empty(); ++turn) {
  }
  while (!newly_lost_.empty()) {
    for (const int peer : std::vector<int>(newly_lost_)) find_first_lost(peers_[static_cast<std::size_t>(peer)]);
    for (const int peer : std::exchange(newly_lost_, {})) lose(peers_[static_cast<std::size_t>(peer)]);
  }
  if (++turns_since_look_ >= kTurnsPerLook) drop_leftovers();
  completed.insert(completed.end(), std::make_move_iterator(completed_.begin()), std::make_move_iterator(completed_.end()));
  completed_.clear();
  return {};
}

void UcxTransport::on_lost(void* peer, ucp_ep_h, ucs_status_t status) {
  auto& lost = *static_cast<Peer*>(peer);
  lost.lost_by_ucx = true;
  if (!lost.lost.ok()) return;
  const char* how = lost.said_farewell ? "has left the communicator" : "was killed or ended, or its link is cut";
  lost.lost = Status(Code::kRemoteError,
                     fmt::format("rank {} ({}) {} (UCX: {})", lost.rank, describe(lost.card), how, ucs_status_string(status)));
  lost.transport->newly_lost_.push_back(lost.rank);
}

void UcxTransport::look_for_deaths() {
  heartbeat_->clear_event();  // before the look: what comes after it wakes sleep() again
  deaths_seen_ = heartbeat_->deaths();
  for (Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    Peer& peer = peers_[static_cast<std::size_t>(each.rank)];
    if (!peer.lost.ok()) continue;
    peer.lost = std::move(each.status);
    newly_lost_.push_back(peer.rank);
  }
}

void UcxTransport::watch_waited_for() {
  if (heartbeat_ == nullptr) return;
  for (const UcxOperationRef& each : open_) {
    if (!each->done) heartbeat_->watch(each->peer);
  }
}

// Whoever ended later may have done so because of the first.
Status UcxTransport::why_lost(const Peer& peer) const {
  return first_lost_ >= 0 ? peers_[static_cast<std::size_t>(first_lost_)].lost : peer.lost;
}

// What waits for it ends; UCX lets go of the buffers when it can.
void UcxTransport::lose(Peer& peer) {
  log_debug("rank {}: {}", rank_, peer.lost.message());
  if (first_lost_ < 0 && !peer.said_farewell) first_lost_ = peer.rank;
  if (heartbeat_ != nullptr && !peer.said_farewell) heartbeat_->give_up(peer.rank);
  std::vector<UcxOperationRef> its;
  std::copy_if(open_.begin(), open_.end(), std::back_inserter(its),
               [&](const UcxOperationRef& each) { return each->peer == peer.rank; });
  for (const UcxOperationRef& each : its) {
    finish(each, why_lost(peer));
    if (each->request != nullptr && each->kind == Operation::Kind::kReceive) ucp_request_cancel(worker_->handle(), each->request);
  }
}

void UcxTransport::go_on_without(int peer) {
  Peer& out = peers_[static_cast<std::size_t>(peer)];
  if (peer == rank_ || out.said_farewell) return;
  out.is_left_out = true;
  if (heartbeat_ != nullptr) heartbeat_->go_on_without(peer);
  if (!out.lost.ok()) return;
  out.lost = Status(Code::kRemoteError, fmt::format("rank {} ({}) was given up by others", peer, describe(out.card)));
  lose(out);
}

// A farewell is of a rank that goes on nowhere, or with this one: it says none to whom it leaves out.
Transport::PeerEnd UcxTransport::end_of(int peer) {
  if (peers_[static_cast<std::size_t>(peer)].said_farewell) return PeerEnd::kSure;
  if (heartbeat_ == nullptr) return PeerEnd::kMayGoOn;
  for (const Heartbeat::Obituary& each : heartbeat_->obituaries()) {
    if (each.rank == peer) return each.is_sure ? PeerEnd::kSure : PeerEnd::kMayGoOn;
  }
  heartbeat_->watch(peer);
  return PeerEnd::kUnknown;
}

// As over MPI: naps come late, where the wait is long enough for them to be lost in it. All figures are heuristics.
void UcxTransport::idle(std::uint64_t turns, double until_seconds) {
  constexpr double kLongestYield = 0.1;  // seconds; 30,000 turns over TCP, where nobody else runs
  const std::uint64_t spins = crowded_ ? 4 : 2'000;
  // Few where others want the core: since Linux 6.18 each costs its thread a slice of what is due to it (40 a wait: no faster).
  const std::uint64_t yields = crowded_ ? 4 : 30'000;
  if (turns > 1 && turns < spins) return;
  const double time = now();
  if (turns <= 1) {
    idle_since_ = time;
    watch_clock_.wait_begins(time);
    return;
  }
  if (watch_clock_.is_due(time)) watch_waited_for();
  if (turns < spins + yields && time < idle_since_ + kLongestYield) {
    sched_yield();
    return;
  }
  drop_leftovers();
  sleep(std::min(until_seconds - time, kLongestSleep));
}

void UcxTransport::sleep(double seconds) { worker_->sleep(seconds, heartbeat_ != nullptr ? heartbeat_->event_fd() : -1); }

void UcxTransport::close(Channel channel) {
  closed_.push_back(channel);
  if (closed_.size() > kClosedRemembered) closed_.pop_front();
}

// A message that its call did not receive keeps its sender waiting: it is taken, and ends as too large for no space at all.
void UcxTransport::drop_leftovers() {
  turns_since_look_ = 0;
  if (closed_.empty()) return;
  const Channel channel = closed_.front();
  closed_.pop_front();
  closed_.push_back(channel);
  drop_messages(tag_of(0, channel), kAnyRank);
}

void UcxTransport::drop_messages(ucp_tag_t tag, ucp_tag_t mask) {
  ucp_tag_recv_info_t info = {};
  while (const ucp_tag_message_h message = ucp_tag_probe_nb(worker_->handle(), tag, mask, 1, &info)) {
    const auto sender = static_cast<int>(info.sender_tag & ~kAnyRank);
    const UcxOperationRef operation = make(Operation::Kind::kReceive, sender, {}, {});
    ucp_request_param_t param = {};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv = on_received;
    param.user_data = operation.get();
    operation->done = true;  // nobody hears of it
    post(operation, [&] { return ucp_tag_msg_recv_nbx(worker_->handle(), nullptr, 0, message, &param); });
  }
}

}  // namespace sparcl
