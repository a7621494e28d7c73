#include "src/transport/nccl/nccl_engine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace sparcl::transport {
namespace {

constexpr int kUint8 = 1;  // ncclUint8
constexpr double kDepartureSeconds = 5;
constexpr unsigned kConfigMagic = 0xcafebeef, kConfigVersion = 21400;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Status NcclEngine::settled(NcclLibrary::Result_t result, const char* what, double timeout_s,
                           const std::function<Status()>& on_wait) {
  // The communicator does not block: long work continues in a thread of NCCL's.
  const double deadline = now() + timeout_s;
  std::chrono::microseconds nap(10);
  while (result == NcclLibrary::kInProgress) {
    if (now() > deadline) {
      return Status(
          Code::kTimeout,
          fmt::format("NCCL {}: {} has not come to an end in {:g} s: a rank did not come, or its "
                      "network does not reach it (NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)",
                      nccl_version_text(nccl_.version), what, timeout_s));
    }
    if (on_wait) SPARCL_RETURN_IF_ERROR(on_wait());
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, std::chrono::microseconds(1000));
    NcclLibrary::Result_t state = NcclLibrary::kSuccess;
    const NcclLibrary::Result_t asked = nccl_.async_error(comm_, &state);
    result = asked != NcclLibrary::kSuccess ? asked : state;
  }
  return nccl_.status_of(result, what, comm_);
}

Result<std::unique_ptr<NcclEngine>> NcclEngine::create(const NcclLibrary& nccl, const NcclId& id,
                                                       int rank, int size, double timeout_s,
                                                       const std::function<Status()>& on_wait) {
  std::unique_ptr<NcclEngine> made(new NcclEngine(nccl, nullptr, true, rank, size, timeout_s));
  NcclConfig config{sizeof(NcclConfig), kConfigMagic, kConfigVersion, 0};
  const NcclLibrary::Result_t begun = nccl.init_rank(&made->comm_, size, id, rank, &config);
  const Status ready = made->settled(begun, "ncclCommInitRankConfig", timeout_s, on_wait);
  if (ready.ok()) return made;
  (void)made->abort();
  return ready;
}

Result<std::unique_ptr<NcclEngine>> NcclEngine::wrap(const NcclLibrary& nccl,
                                                     NcclLibrary::Comm comm, int rank, int size,
                                                     int gpu, double timeout_s) {
  int its_rank = -1, its_size = 0, its_gpu = -1;
  SPARCL_RETURN_IF_ERROR(nccl.status_of(nccl.count(comm, &its_size), "ncclCommCount", nullptr));
  SPARCL_RETURN_IF_ERROR(
      nccl.status_of(nccl.user_rank(comm, &its_rank), "ncclCommUserRank", nullptr));
  SPARCL_RETURN_IF_ERROR(nccl.status_of(nccl.device(comm, &its_gpu), "ncclCommCuDevice", nullptr));
  if (its_gpu != gpu) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the NCCL communicator is of GPU {}, this thread's is GPU {}: choose "
                              "its GPU by cudaSetDevice before the call",
                              its_gpu, gpu));
  }
  if (its_rank != rank || its_size != size) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("the NCCL communicator has this rank as {} of {}, where this communicator has "
                    "it as {} of {}: give one of the same ranks in the same order",
                    its_rank, its_size, rank, size));
  }
  return std::unique_ptr<NcclEngine>(new NcclEngine(nccl, comm, false, rank, size, timeout_s));
}

NcclEngine::~NcclEngine() {
  if (comm_ == nullptr || !is_own_) return;
  // Messages that NCCL's own threads still send for this rank leave first.
  if (settled(nccl_.finalize(comm_), "ncclCommFinalize", std::min(timeout_s_, kDepartureSeconds),
              {})
          .ok())
    (void)nccl_.destroy(comm_);
  else
    (void)nccl_.abort(comm_);
}

// NCCL has 8-bit floats for newer GPUs only, and rounds them after each step. They are staged
// through host memory instead.
bool NcclEngine::reduces(DataType type) const {
  return static_cast<int>(type) <= static_cast<int>(DataType::kBfloat16);
}

Status NcclEngine::check_comm() const {
  return comm_ != nullptr ? Status()
                          : Status(Code::kInvalidUsage, "NCCL: its communicator has been aborted");
}

Status NcclEngine::all_reduce(const void* send, void* receive, std::uint64_t count, DataType type,
                              EngineOp op, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_comm());
  return settled(nccl_.all_reduce(send, receive, count, static_cast<int>(type),
                                  static_cast<int>(op), comm_, stream),
                 "ncclAllReduce", timeout_s_, watch_);
}

Status NcclEngine::broadcast(void* array, std::uint64_t bytes, int root, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_comm());
  return settled(nccl_.broadcast(array, array, bytes, kUint8, root, comm_, stream), "ncclBroadcast",
                 timeout_s_, watch_);
}

Status NcclEngine::all_gather(const void* send, void* receive, std::uint64_t bytes, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_comm());
  return settled(nccl_.all_gather(send, receive, bytes, kUint8, comm_, stream), "ncclAllGather",
                 timeout_s_, watch_);
}

Status NcclEngine::send_and_receive(const void* send, std::uint64_t bytes,
                                    std::uint64_t piece_bytes, void* receive, void* stream) const {
  const auto size_of = [&](int rank) {
    const std::uint64_t begin = static_cast<std::uint64_t>(rank) * piece_bytes;
    return begin < bytes ? std::min(piece_bytes, bytes - begin) : 0;
  };
  const auto check = [&](NcclLibrary::Result_t result, const char* what) {
    return result == NcclLibrary::kInProgress ? Status() : nccl_.status_of(result, what, comm_);
  };
  for (int peer = 0; peer < size_; ++peer) {
    const std::uint64_t place = static_cast<std::uint64_t>(peer) * piece_bytes;
    if (size_of(peer) > 0)
      SPARCL_RETURN_IF_ERROR(check(nccl_.send(static_cast<const std::byte*>(send) + place,
                                              size_of(peer), kUint8, peer, comm_, stream),
                                   "ncclSend"));
    if (size_of(rank_) > 0)
      SPARCL_RETURN_IF_ERROR(check(nccl_.receive(static_cast<std::byte*>(receive) + place,
                                                 size_of(rank_), kUint8, peer, comm_, stream),
                                   "ncclRecv"));
  }
  return Status();
}

Status NcclEngine::all_to_all(const void* send, std::uint64_t bytes, std::uint64_t piece_bytes,
                              void* receive, void* stream) {
  SPARCL_RETURN_IF_ERROR(check_comm());
  SPARCL_RETURN_IF_ERROR(nccl_.status_of(nccl_.group_start(), "ncclGroupStart", comm_));
  // A group belongs to this thread: an open group would take in all later calls of NCCL.
  const Status grouped = send_and_receive(send, bytes, piece_bytes, receive, stream);
  const Status ended = settled(nccl_.group_end(), "ncclGroupEnd", timeout_s_, watch_);
  return grouped.ok() ? ended : grouped;
}

Status NcclEngine::health() {
  SPARCL_RETURN_IF_ERROR(check_comm());
  NcclLibrary::Result_t state = NcclLibrary::kSuccess;
  SPARCL_RETURN_IF_ERROR(
      nccl_.status_of(nccl_.async_error(comm_, &state), "ncclCommGetAsyncError", comm_));
  return state == NcclLibrary::kInProgress ? Status()
                                           : nccl_.status_of(state, "what streams hold", comm_);
}

bool NcclEngine::abort() {
  if (!is_own_) return false;
  if (comm_ != nullptr) (void)nccl_.abort(std::exchange(comm_, nullptr));
  return true;
}

}  // namespace sparcl::transport
