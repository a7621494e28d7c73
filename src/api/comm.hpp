#pragma once
// The communicator behind the handle: a transport, its engine, and what the last call left.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "collectives/broadcast/broadcast.hpp"
#include "sparcl/sparcl.h"
#include "src/api/call_predictor.hpp"
#include "src/api/handles.hpp"
#include "src/base/flight/comm_trail.hpp"
#include "src/base/status.hpp"
#include "src/base/worker_pool.hpp"
#include "src/comm/device/device_calls.hpp"
#include "src/comm/engine/engine.hpp"
#include "src/device/device_scratch.hpp"
#include "src/gpu/pinned_copies.hpp"
#include "src/net/heartbeat/heartbeat.hpp"
#include "src/transport/peer_card.hpp"
#include "src/transport/transport.hpp"

namespace sparcl::api {

// The text of the last error. number: its count in this process; 0: there was none.
struct ErrorText {
  std::uint64_t number = 0;
  std::string text;
};

}  // namespace sparcl::api

struct sparclComm {
  sparclComm(std::unique_ptr<sparcl::transport::Transport> body, double timeout_s,
             sparcl::flight::CommTrail began);
  ~sparclComm();

  sparcl::api::OwnHandle<sparclComm> handle{this};
  int pid;                                   // the owner: a child of fork() has a copy
  std::atomic<const void*> inside{nullptr};  // the thread that is in a call (Entry)
  std::atomic<const void*> caller{nullptr};  // the thread of the last call; nullptr: none
  std::uint64_t
      id;  // unique in this process: tells a state whether this comm's ranks confirmed its snapshot
  std::unique_ptr<sparcl::transport::Transport> transport;
  std::unique_ptr<sparcl::WorkerPool> workers;  // where there is more than one thread
  sparcl::flight::CommTrail trail;
  sparcl::comm::Engine engine;
  sparcl::comm::CommContext context;
  sparcl::gpu::PinnedCopies pinned_copies;  // of arrays staged through host memory
  std::unique_ptr<sparcl::device::DeviceScratch>
      device_scratch;  // after a call that selected on a GPU
  std::unique_ptr<sparcl::comm::DeviceCalls>
      device;            // after sparclCommUseNccl; goes first: it ends what streams wait for
  std::mutex reporting;  // guards last_error, which any thread may ask for
  sparcl::api::ErrorText last_error;  // of calls of this comm
  sparcl::comm::CallReport last_report;
  sparcl::api::CallPredictor predictor;
  std::vector<sparclRequest*> pending;
  bool early_blocking = true;  // how blocking and non-blocking calls write: SPARCL_COMMIT
  bool early_nonblocking = false;
  bool uses_device_kernels = true;    // SPARCL_DEVICE_KERNELS
  bool keeps_device_snapshot = true;  // SPARCL_DEVICE_SNAPSHOT
  std::uint32_t next_call = 0;        // in the order of the calls, which is the same on all ranks
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;  // as it was given, but for the transport
  sparcl::Status shrunk;  // not ok after sparclCommShrink: the error of later calls

  sparcl::codec::Writing writing(bool is_blocking) const {
    return (is_blocking ? early_blocking : early_nonblocking) ? sparcl::codec::Writing::kEarly
                                                              : sparcl::codec::Writing::kStaged;
  }

  // Ends all pending calls with an error and runs their tasks to the end.
  void abort_pending(const char* reason) noexcept;
  // An error of the messenger ends the calls on streams, and the other way round.
  void join_healths() {
    if (device != nullptr) device->exchange_health(engine);
  }
  // Ends the tasks of pending calls, as the comm is poisoned.
  void finish_pending();
};

namespace sparcl::api {

// After this number of calls numbers begin again at 0. Larger numbers are for sparclCommShrink and
// the flight record.
constexpr std::uint32_t kCallNumbers = UINT32_MAX - (1U << 16);
constexpr std::uint32_t next_call_number(std::uint32_t call) { return (call + 1) % kCallNumbers; }

Status check_config(const sparclConfig_t* config);
// config may be nullptr; its fields that are zero come from the environment. `began`: the trail of
// the handshake of its ranks, if it has one.
Result<std::unique_ptr<sparclComm>> make_comm(std::unique_ptr<transport::Transport> transport,
                                              const sparclConfig_t* config,
                                              flight::CommTrail began = {});
// The set-up of a new communicator before the first call. Collective: each rank in its own thread
// or process.
Status start_comm(sparclComm& comm);

// Before the call begins: the user's report is nullptr, or can be written.
Status check_report(const sparclReport_t* report);
Status write_report(const comm::CallReport& report, sparclReport_t* into);

// Seconds that a call waits for a late peer, from the config, else from the environment.
Result<double> timeout_of(const sparclConfig_t* config);

// How the ranks of a communicator were started. It limits the choice of transports.
enum class StartedBy { kMpi, kUniqueId, kThreads };
enum class TransportKind { kMpi, kUcx, kLoopback };

struct TransportChoice {
  TransportKind kind;
  const char* why;
};
// From the config, else from the environment. If UCX is chosen, it is loaded, and its needs for
// `ranks` ranks are checked.
Result<TransportChoice> choose_transport(StartedBy by, const sparclConfig_t* config, int ranks = 1);
// Collective over the ranks of `gather`. Unsupported if UCX is not in this build.
Result<std::unique_ptr<transport::Transport>> make_ucx_transport(
    int rank, int ranks, const transport::OutOfBandGather& gather, const sparclConfig_t* config);
// From the config, else from the environment. Empty: heartbeats are off.
Result<std::optional<net::HeartbeatOptions>> heartbeat_of(const sparclConfig_t* config);

}  // namespace sparcl::api

// The functions of libsparcl for libsparcl_mpi. The first takes ownership of `transport`, a
// sparcl::Transport*, also if it fails.
extern "C" SPARCL_API sparclResult_t sparclInternalCommInitTransport(sparclComm_t* comm,
                                                                     void* transport,
                                                                     const sparclConfig_t* config);
// Chooses the transport of a comm of MPI's ranks: *uses_ucx is 0 or 1.
extern "C" SPARCL_API sparclResult_t sparclInternalChooseForMpi(const sparclConfig_t* config,
                                                                int* uses_ucx);
// Makes a sparcl::UcxTransport*; gather is a const sparcl::OutOfBandGather*.
extern "C" SPARCL_API sparclResult_t sparclInternalMakeUcx(void** transport, int rank, int ranks,
                                                           const void* gather,
                                                           const sparclConfig_t* config);
// Into a std::optional<sparcl::HeartbeatOptions>.
extern "C" SPARCL_API sparclResult_t sparclInternalHeartbeat(const sparclConfig_t* config,
                                                             void* options);
// build_id() of libsparcl: libsparcl_mpi passes it C++ objects, so both come from one build.
extern "C" SPARCL_API const char* sparclInternalBuild();
// Whether a comm could be configured by this config and the environment.
extern "C" SPARCL_API sparclResult_t sparclInternalCheckConfig(const sparclConfig_t* config);
// Seconds, from this config and the environment. If they are wrong: the default.
extern "C" SPARCL_API double sparclInternalTimeout(const sparclConfig_t* config);
extern "C" SPARCL_API sparclResult_t sparclInternalReportError(sparclResult_t result,
                                                               const char* text);
