#include "src/transport/mpi/mpi_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <exception>
#include <new>

#include "src/base/caught_error.hpp"
#include "src/base/log.hpp"
#include "src/net/broken_pipe.hpp"
#include "src/net/socket.hpp"
#include "src/transport/mpi/mpi_error.hpp"
#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/mpi/returned_errors.hpp"
#include "src/transport/posting.hpp"

namespace sparcl::transport {
namespace {

// How often progress() looks for signals and for messages of closed channels. Heuristic: a look
// costs about as much as ten turns.
constexpr std::uint32_t kTurnsPerLook = 128;

struct ProcessName {
  std::array<char, 120> host{};
  std::int64_t pid = 0;
};

struct Peers {
  std::vector<std::string> names;
  bool on_one_host = true;
};

Result<Peers> exchange_names(MPI_Comm comm, int size) {
  ProcessName own;
  if (::gethostname(own.host.data(), own.host.size() - 1) != 0) own.host[0] = '?';
  own.pid = ::getpid();
  std::vector<ProcessName> all(static_cast<std::size_t>(size));
  SPARCL_RETURN_IF_ERROR(
      mpi_status(MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, comm),
                 "MPI_Allgather of process names"));
  Peers peers;
  for (ProcessName& each : all) {
    each.host.back() = '\0';
    peers.names.push_back(fmt::format("host {}, pid {}", each.host.data(), each.pid));
    peers.on_one_host = peers.on_one_host && each.host == all[0].host;
  }
  return peers;
}

Result<MPI_Comm> duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  SPARCL_RETURN_IF_ERROR(mpi_status(
      MPI_Comm_dup(comm, &copy),
      "a communicator needs two of MPI's: destroy those that are no longer needed; MPI_Comm_dup"));
  SPARCL_RETURN_IF_ERROR(
      mpi_status(MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
  return copy;
}

// The other ranks wait in the next step: an exception here must not keep this rank from it.
template <class Stage>
Status without_exceptions(Stage&& stage) {
  try {
    return stage();
  } catch (const std::exception&) {
    return caught_error("heartbeats could not be started");
  }
}

// Collective over comm. Only MPI_COMM_WORLD is sure to have the attribute: in Open MPI 4.1 the
// result of MPI_Comm_split does not.
Result<int> agree_on_largest_tag(MPI_Comm comm) {
  constexpr int kPromisedByMpi = 32767;
  int* value = nullptr;
  int found = 0, largest = kPromisedByMpi;
  if (MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&value), &found) ==
          MPI_SUCCESS &&
      found)
    largest = std::max(*value, kPromisedByMpi);
  SPARCL_RETURN_IF_ERROR(
      mpi_status(MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_INT, MPI_MIN, comm),
                 "MPI_Allreduce of the largest tag"));
  return largest;
}

// Collective over comm: a failure on one rank is an error on all, and keeps its own text there.
Status agree(MPI_Comm comm, const Status& mine, const char* what) {
  int rank = 0, failed = INT_MAX;
  MPI_Comm_rank(comm, &rank);
  const int own = mine.ok() ? INT_MAX : rank;
  const Status told =
      mpi_status(MPI_Allreduce(&own, &failed, 1, MPI_INT, MPI_MIN, comm), "MPI_Allreduce");
  SPARCL_RETURN_IF_ERROR(mine);
  SPARCL_RETURN_IF_ERROR(told);
  if (failed == INT_MAX) return {};
  return Status(Code::kRemoteError,
                fmt::format("rank {}: {}, as its own error says", failed, what));
}

// One communicator on each rank, or none on any.
Result<MPI_Comm> duplicate_on_all(MPI_Comm comm) {
  Result<MPI_Comm> copy = duplicate(comm);
  const Status agreed = agree(comm, copy.status(), "MPI could not duplicate its communicator");
  if (agreed.ok()) return copy;
  if (copy.ok()) MPI_Comm_free(&*copy);
  return agreed;
}

}  // namespace

Result<std::unique_ptr<MpiTransport>> MpiTransport::create(MPI_Comm comm,
                                                           const MpiOptions& options) {
  SPARCL_RETURN_IF_ERROR(check_mpi_is_there(comm));
  const ReturnedErrors guard(comm);
  int is_inter = 0;
  SPARCL_RETURN_IF_ERROR(mpi_status(MPI_Comm_test_inter(comm, &is_inter), "MPI_Comm_test_inter"));
  if (is_inter)
    return Status(Code::kInvalidArgument,
                  "the MPI communicator joins two groups: merge it (MPI_Intercomm_merge) first");
  if (options.piece_bytes < 1 || options.piece_bytes > INT_MAX ||
      options.eager_bytes > INT_MAX - HeadFormat::kTrailerBytes) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("messages cannot be cut after {} bytes into pieces of {}: MPI counts up to {}",
                    options.eager_bytes, options.piece_bytes, INT_MAX));
  }
  SPARCL_ASSIGN_OR_RETURN(MPI_Comm data, duplicate_on_all(comm));
  Result<MPI_Comm> side = duplicate_on_all(comm);
  if (!side.ok()) {
    MPI_Comm_free(&data);
    return side.status();
  }
  int size = 0;
  MPI_Comm_size(data, &size);
  SPARCL_ASSIGN_OR_RETURN(Peers peers, exchange_names(data, size));
  SPARCL_ASSIGN_OR_RETURN(const int largest_tag, agree_on_largest_tag(data));
  std::unique_ptr<MpiTransport> made(
      new MpiTransport(data, *side, MpiIdler(data), largest_tag, options));
  made->peers_ = std::move(peers.names);
  made->capabilities_.single_node = peers.on_one_host && !made->idler_.is_simulated();
  if (options.heartbeat && !made->idler_.is_simulated())
    SPARCL_RETURN_IF_ERROR(made->start_heartbeat(*options.heartbeat));
  return made;
}

MpiTransport::MpiTransport(MPI_Comm data, MPI_Comm side, MpiIdler idler, int largest_tag,
                           const MpiOptions& options)
    : data_(data),
      side_(side),
      idler_(idler),
      largest_tag_(largest_tag),
      tags_(largest_tag),
      format_(options.eager_bytes),
      piece_bytes_(options.piece_bytes),
      signals_(side, idler.is_simulated()) {
  MPI_Comm_rank(data_, &rank_);
  capabilities_.pinned_memory = true;
}

// Collective. A rank whose heartbeat cannot be opened gives an empty card.
Status MpiTransport::start_heartbeat(const net::HeartbeatOptions& options) {
  std::unique_ptr<net::Heartbeat> heartbeat;
  Bytes card;
  Status mine = without_exceptions([&]() -> Status {
    Result<std::unique_ptr<net::Heartbeat>> opened = net::Heartbeat::open(options);
    if (opened.ok()) heartbeat = std::move(*opened);
    if (opened.ok()) card = heartbeat->card();
    return opened.status();
  });
  const Result<std::vector<Bytes>> cards = mpi_gather(data_, card);
  if (mine.ok()) mine = cards.status();
  if (mine.ok()) mine = without_exceptions([&] { return heartbeat->start(rank_, *cards); });
  // A rank that cannot continue says so, so that no other rank waits for it in the first call.
  SPARCL_RETURN_IF_ERROR(agree(data_, mine, "its heartbeats could not be started"));
  net::take_broken_pipes();
  heartbeat_ = std::move(heartbeat);
  capabilities_.knows_peer_death = true;
  return {};
}

MpiTransport::~MpiTransport() {
  if (heartbeat_ != nullptr) heartbeat_->leave();
  if (mpi_is_finalized()) return;
  const net::BrokenPipeGuard guard;
  // Sends of small messages and cancelled receives end within a few turns. The other requests are
  // kept for good, with their communicators.
  requests_.cancel_heads();
  try {
    for (std::size_t turn = 0, turns = 100 * requests_.windows();
         turn < turns && requests_.size() > 0; ++turn) {
      if (!requests_.test(finished_).ok()) break;
      finished_.clear();
    }
  } catch (const std::bad_alloc&) {  // they are kept, too
  }
  // After an error messages may still be on their way. Open MPI keeps those of a freed communicator
  // for the next one with the same number. These numbers must not be used again.
  if (requests_.size() > 0 || !signals_.none_ever() || has_cancelled_ || !health_.ok()) {
    log_debug("rank {}: {} requests are left with MPI; their memory stays allocated", rank_,
              requests_.size());
    return;
  }
  MPI_Comm_free(&data_);
  MPI_Comm_free(&side_);
}

std::string MpiTransport::describe_peer(int peer) const {
  return peer >= 0 && peer < size() ? peers_[static_cast<std::size_t>(peer)]
                                    : fmt::format("no rank {}", peer);
}

// MPI_Finalize ends the transport: no function of MPI may be called after it.
bool MpiTransport::is_over() {
  if (health_.ok() && mpi_is_finalized()) health_ = Status(Code::kInvalidUsage, kMpiIsFinalized);
  return !health_.ok();
}

const char* MpiTransport::why_over() const noexcept {
  return mpi_is_finalized() ? kMpiIsFinalized : nullptr;
}

// Simulated time is MPI's. Otherwise the clock must also work after MPI_Finalize.
double MpiTransport::now() {
  return idler_.is_simulated() ? MPI_Wtime() : net::monotonic_seconds();
}

bool MpiTransport::refuse(Operation& operation) {
  (void)is_over();
  return refused(operation, health_.ok() ? check_posted(operation, *this) : health_);
}

// --- progress ---

Status MpiTransport::progress(std::vector<OperationRef>& completed) {
  if (is_over()) return health_;
  const net::BrokenPipeGuard guard;
  if (Status status = requests_.test(finished_); !status.ok()) health_ = std::move(status);
  for (const Finished& each : finished_) handle(each, completed);
  finished_.clear();
  if (++turns_since_look_ >= kTurnsPerLook) look_around();
  if (heartbeat_ != nullptr && heartbeat_->deaths() != deaths_seen_) look_for_deaths();
  return health_;
}

void MpiTransport::idle(std::uint64_t turns, double until_seconds) {
  const std::size_t windows = std::max<std::size_t>(requests_.windows(), 1);
  const std::uint64_t rounds =
      (turns + windows - 1) / windows;  // in each of which all requests were asked for
  if (idler_.is_simulated()) return wait_in_simulation(rounds, until_seconds - now());
  if (turns % 16 == 0) look_around();
  const double time = now();
  if (turns <= 1) watch_clock_.wait_begins(time);
  if (watch_clock_.is_due(time)) watch_waited_for();
  idler_.idle(rounds, until_seconds - time);
}

// Each turn of polling costs simulated time, and real time for every rank. If the deadline is far,
// this therefore blocks until something arrives. A message that never comes then ends in the
// simulator's own deadlock report.
void MpiTransport::wait_in_simulation(std::uint64_t turns, double seconds_left) {
  constexpr double kFarSeconds = 30, kShortestNap = 1e-6, kLongestNap = 1e-4;
  if (is_over() || !signals_.empty()) return;
  if (requests_.size() == 0 || seconds_left < kFarSeconds) {
    const double nap = std::min(kShortestNap * static_cast<double>(turns), kLongestNap);
    idler_.nap(std::min(nap, seconds_left));
    return look_around();
  }
  if (Status status = requests_.wait(finished_, signals_.posted()); !status.ok())
    health_ = std::move(status);
  if (signals_.posted() == MPI_REQUEST_NULL) signals_.probe();
}

void MpiTransport::watch_waited_for() {
  if (heartbeat_ == nullptr) return;
  requests_.each_waiting(
      [this](const MpiOperation& operation) { heartbeat_->watch(operation.peer); });
}

// MPI cannot continue without a rank: the transport ends here.
void MpiTransport::look_for_deaths() {
  deaths_seen_ = heartbeat_->deaths();
  if (!health_.ok()) return;
  // A rank that left because of an earlier death has said so. Its signal may have come before this
  // rank's own news.
  signals_.probe();
  const net::Heartbeat::Obituary first = heartbeat_->obituaries().front();
  health_ = first.status;
  culprit_ = first.rank;
}

// Also after a death: a rank that waits for a live rank learns of the death from the ranks that
// waited for the dead one. The message is small, and leaves at once if the two ranks have exchanged
// messages before.
void MpiTransport::signal(int peer, const Signal& signal) {
  if (peer < 0 || peer >= size() || (is_over() && culprit_ < 0) || mpi_is_finalized()) return;
  if (culprit_ >= 0 && heartbeat_->dead(peer)) return;
  const net::BrokenPipeGuard guard;
  Signal sent = signal;
  sent.from = rank_;
  signals_.send(peer, sent);
}

void MpiTransport::close(Channel channel) { closed_.add(channel); }

void MpiTransport::look_around() {
  turns_since_look_ = 0;
  if (is_over()) return;
  const net::BrokenPipeGuard guard;
  signals_.probe();
  if (!closed_.empty()) drain(closed_.next());
}

// A message that its call did not receive keeps its sender waiting, and would match a later call
// with the same tag.
void MpiTransport::drain(Channel channel) {
  const int tag = tags_.of(channel);
  MPI_Status status;
  for (int found = 0; MPI_Iprobe(MPI_ANY_SOURCE, tag, data_, &found, &status) == MPI_SUCCESS &&
                      found && health_.ok();) {
    const auto operation =
        make_operation<MpiOperation>(Operation::Kind::kReceive, status.MPI_SOURCE, channel, {});
    operation->done = true;
    receive_head(operation, tag);
  }
}

}  // namespace sparcl::transport
