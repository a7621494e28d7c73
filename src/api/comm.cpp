#include "src/api/comm.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <sstream>
#include <thread>

#include "collectives/table/collective_table.hpp"
#include "src/api/call.hpp"
#include "src/api/comm_config.hpp"
#include "src/api/error.hpp"
#include "src/base/build_id.hpp"
#include "src/base/flight/flight_recorder.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/comm/start/link_measurement.hpp"
#include "src/comm/start/node_discovery.hpp"
#include "src/comm/start/shared_windows.hpp"
#include "src/transport/loopback/loopback_world.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::Entry;
using sparcl::api::guarded;
using sparcl::api::guarded_about;
using sparcl::api::guarded_in;
using sparcl::api::guarded_with;
using sparcl::api::report_error;

namespace {

constexpr int kMaxThreadRanks = 1 << 16;

std::uint64_t next_comm_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

sparclComm::sparclComm(std::unique_ptr<sparcl::transport::Transport> body, double timeout_s,
                       sparcl::flight::CommTrail began)
    : pid(::getpid()),
      id(next_comm_id()),
      transport(std::move(body)),
      trail(std::move(began)),
      engine(*transport, timeout_s) {
  const sparcl::flight::CommNote note = {id, transport->rank(), transport->size(),
                                         transport->name()};
  if (trail.trail() != nullptr) {
    trail.met(note);
  } else {
    trail = sparcl::flight::CommTrail(note);
  }
  context.engine = &engine;
  engine.set_trail(&trail);
  engine.set_collectives(sparcl::collectives::collective_table());
}

sparclComm::~sparclComm() {
  if (device != nullptr) {  // of a comm that is over, streams are not waited for
    if (engine.health().ok()) engine.step();
    join_healths();
  }
  if (!engine.health().ok() && context.window != nullptr) context.window->give_memory_up();
  if (pending.empty()) return;
  abort_pending("the communicator was destroyed with requests in flight");
  for (sparclRequest* request : std::exchange(pending, {}))
    sparcl::api::settle_without_comm(*request);
}

void sparclComm::abort_pending(const char* reason) noexcept {
  engine.fail(Code::kRemoteError, reason, transport->rank());
  finish_pending();
}

void sparclComm::finish_pending() {
  for (sparclRequest* request : pending) engine.finish(request->task);
}

namespace sparcl::api {

Result<std::unique_ptr<sparclComm>> make_comm(std::unique_ptr<transport::Transport> transport,
                                              const sparclConfig_t* config,
                                              flight::CommTrail began) {
  warn_of_unknown_settings(sparcl::collectives::algorithm_settings());
  SPARCL_ASSIGN_OR_RETURN(const Configuration configuration, configure(config));
  auto comm =
      std::make_unique<sparclComm>(std::move(transport), configuration.timeout_s, std::move(began));
  comm->context = configuration.context;
  comm->context.engine = &comm->engine;
  comm->context.buffers = BufferPool::of_process();
  if (configuration.threads > 1) {
    comm->workers = std::make_unique<WorkerPool>(configuration.threads);
    comm->context.workers = comm->workers.get();
  }
  SPARCL_RETURN_IF_ERROR(read_sized(config, "config", comm->config));
  comm->config.transport = nullptr;  // the caller's text need not live on
  comm->early_blocking = configuration.early_blocking;
  comm->early_nonblocking = configuration.early_nonblocking;
  comm->uses_device_kernels = configuration.uses_device_kernels;
  comm->keeps_device_snapshot = configuration.keeps_device_snapshot;
  log_info("rank {} of {}: comm {} over {}, kernels {}", comm->transport->rank(),
           comm->transport->size(), comm->id, comm->transport->name(), comm->context.kernels->name);
  return comm;
}

namespace {

// A message is one line.
void log_link_cost(const comm::LinkCost& cost) {
  std::istringstream table(comm::write_link_cost(cost));
  for (std::string line; std::getline(table, line);) log_info("links cost: {}", line);
}

Status share_and_measure(sparclComm& comm) {
  SPARCL_ASSIGN_OR_RETURN(const std::string& window, setting_choice("NODE_WINDOW"));
  const transport::Channel channel{comm.next_call, 0};
  comm.next_call = api::next_call_number(comm.next_call);
  comm::Task meeting = comm::share_windows(comm.context, channel, window == "on");
  comm.engine.run(meeting);
  SPARCL_RETURN_IF_ERROR(meeting.result());
  comm::Task discovery = comm::find_nodes(comm.context, channel);
  comm.engine.run(discovery);
  SPARCL_RETURN_IF_ERROR(discovery.result());
  comm::LinkSource source = comm::LinkSource::kMeasured;
  if (const std::string cost = setting("LINK_COST").text; cost == "guess") {
    source = comm::LinkSource::kGuess;
  } else if (cost != "measure") {
    source = comm::LinkSource::kStored;
    SPARCL_ASSIGN_OR_RETURN(const comm::LinkCost stored, comm::read_link_cost(cost));
    comm.context.measured_link = stored;
  }
  comm::Task measurement =
      comm::find_link_cost(comm.context, channel, source, comm.context.measured_link);
  comm.engine.run(measurement);
  SPARCL_RETURN_IF_ERROR(measurement.result());
  if (comm.context.measured_link && comm.transport->rank() == 0)
    log_link_cost(*comm.context.measured_link);
  comm.transport->close(channel);
  if (comm.context.window != nullptr) comm.context.window->end_measurement();
  return Status();
}

}  // namespace

// Some ranks may be through before another dies: it is the first call's failure for all, and each
// has a communicator to shrink.
Status start_comm(sparclComm& comm) {
  Status started = share_and_measure(comm);
  return comm.engine.health().ok() ? started : Status();
}

Status check_report(const sparclReport_t* report) {
  return report == nullptr ? Status() : check_size("report->size", report->size, sizeof *report);
}

Status write_report(const comm::CallReport& report, sparclReport_t* into) {
  SPARCL_RETURN_IF_ERROR(check_report(into));
  sparclReport_t full = SPARCL_REPORT_INITIALIZER;
  full.algorithm = report.algorithm;
  full.nnz_in = report.nnz_in;
  full.nnz_out = report.nnz_out;
  full.dropped_l2 = report.dropped_l2;
  full.bytes_sent = report.traffic.bytes_sent;
  full.bytes_received = report.traffic.bytes_received;
  full.bytes_dense = report.dense_bytes;
  full.bytes_bound = report.bound_bytes != 0 ? report.bound_bytes : report.traffic.stream_bytes;
  full.seconds = report.seconds;
  full.seconds_predicted = report.seconds_predicted;
  full.seconds_select = report.traffic.produce_seconds;
  full.seconds_exchange = report.seconds_exchange;
  full.applied = report.applied ? 1 : 0;
  full.wire_datatype = report.wire ? static_cast<int>(*report.wire) : -1;
  const std::size_t known = into->size < sizeof full ? into->size : sizeof full;
  full.size = into->size;
  __builtin_memcpy(into, &full, known);
  return Status();
}

}  // namespace sparcl::api

namespace {

constexpr int kMaxAbortNaps = 100;  // milliseconds

// The error for a thread while another thread is in a call of the communicator.
std::string told_text(const sparclComm& comm, Code told) {
  const int culprit = comm.engine.told_culprit();
  const std::string by = culprit >= 0 ? fmt::format(" because of rank {}", culprit) : std::string();
  return fmt::format(
      "rank {}: the communicator ended with {}{}: the call that another thread is in returns the "
      "whole text",
      comm.transport->rank(), sparcl::code_name(told), by);
}

Status abort(sparclComm& comm) {
  comm.trail.event("CommAbort", Code::kSuccess);
  comm.abort_pending("sparclCommAbort was called");
  comm.join_healths();
  return Status();
}

}  // namespace

extern "C" {

const char* sparclInternalBuild() { return sparcl::build_id(); }

sparclResult_t sparclInternalCheckConfig(const sparclConfig_t* config) {
  return guarded([&]() -> Status { return sparcl::api::check_config(config); });
}

double sparclInternalTimeout(const sparclConfig_t* config) {
  double seconds = 600;
  guarded([&]() -> Status {
    if (const Result<double> timeout = sparcl::api::timeout_of(config); timeout.ok())
      seconds = *timeout;
    return Status();
  });
  return seconds;
}

sparclResult_t sparclInternalCommInitTransport(sparclComm_t* comm, void* transport,
                                               const sparclConfig_t* config) {
  return guarded([&]() -> Status {
    std::unique_ptr<sparcl::transport::Transport> body(
        static_cast<sparcl::transport::Transport*>(transport));
    Result<std::unique_ptr<sparclComm>> made = sparcl::api::make_comm(std::move(body), config);
    if (!made.ok()) return made.status();
    SPARCL_RETURN_IF_ERROR(sparcl::api::start_comm(**made));
    *comm = made->release()->handle.get();
    return Status();
  });
}

sparclResult_t sparclCommInitLocal(sparclComm_t* comms, int nranks) {
  return guarded([&]() -> Status {
    if (nranks < 1 || nranks > kMaxThreadRanks) {
      return Status(Code::kInvalidArgument,
                    fmt::format("sparclCommInitLocal: nranks is {}, must be 1 to {}", nranks,
                                kMaxThreadRanks));
    }
    if (comms == nullptr)
      return Status(Code::kInvalidArgument, "sparclCommInitLocal: comms is NULL");
    SPARCL_RETURN_IF_ERROR(
        sparcl::api::choose_transport(sparcl::api::StartedBy::kThreads, nullptr).status());
    std::vector<std::unique_ptr<sparclComm>> made;
    sparcl::transport::LoopbackWorld world(nranks);  // its bodies outlive it
    for (int rank = 0; rank < nranks; ++rank) {
      SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<sparclComm> comm,
                              sparcl::api::make_comm(world.make_transport(rank), nullptr));
      made.push_back(std::move(comm));
    }
    for (std::size_t rank = 0; rank < made.size(); ++rank)
      comms[rank] = made[rank].release()->handle.get();
    return Status();
  });
}

sparclResult_t sparclCommCount(sparclComm_t comm, int* count) {
  return guarded_about(__func__, comm, [&](const sparclComm& own, const Entry&) -> Status {
    if (count == nullptr) return Status(Code::kInvalidArgument, "count is NULL");
    *count = own.transport->size();
    return Status();
  });
}

sparclResult_t sparclCommUserRank(sparclComm_t comm, int* rank) {
  return guarded_about(__func__, comm, [&](const sparclComm& own, const Entry&) -> Status {
    if (rank == nullptr) return Status(Code::kInvalidArgument, "rank is NULL");
    *rank = own.transport->rank();
    return Status();
  });
}

sparclResult_t sparclCommGetAsyncError(sparclComm_t comm, sparclResult_t* error) {
  return guarded_about(__func__, comm, [&](sparclComm& own, const Entry& entry) -> Status {
    if (error == nullptr) return Status(Code::kInvalidArgument, "error is NULL");
    if (entry.is_taken()) {
      const Code told = own.engine.told_health();
      *error = report_error(nullptr,
                            told == Code::kSuccess ? Status() : Status(told, told_text(own, told)));
      return Status();
    }
    SPARCL_RETURN_IF_ERROR(entry.refusal());
    own.engine.step();
    own.join_healths();
    *error = report_error(&own, own.engine.health());
    return Status();
  });
}

sparclResult_t sparclCommGetFailedRank(sparclComm_t comm, int* rank) {
  return guarded_about(__func__, comm, [&](sparclComm& own, const Entry& entry) -> Status {
    if (rank == nullptr) return Status(Code::kInvalidArgument, "rank is NULL");
    if (entry.is_taken()) {
      *rank = own.engine.told_culprit();
      return Status();
    }
    SPARCL_RETURN_IF_ERROR(entry.refusal());
    own.engine.step();
    *rank = own.engine.culprit();
    return Status();
  });
}

sparclResult_t sparclCommAbort(sparclComm_t comm) {
  return guarded_with(__func__, comm, "comm", [&](sparclComm& own) -> Status {
    {
      const Entry entry(&own, Entry::Purpose::kQuestion);
      if (entry.is_open()) return abort(own);
      if (!entry.is_taken()) return entry.refusal();
    }
    // Another thread's: the call that it is in sees this, or, where it is in none, the call is made
    // here. But not over MPI, of which threads other than that one may know nothing.
    own.engine.ask_to_end();
    if (own.transport->name() == "mpi") {
      const Entry entry(&own, Entry::Purpose::kEnd);
      if (entry.is_open() && own.device != nullptr)
        (void)own.device->engine().abort();  // it may wait for a stream
      return Status();
    }
    for (int i = 0; i < kMaxAbortNaps; ++i) {
      if (own.engine.told_health() != Code::kSuccess) return Status();
      const Entry entry(&own, Entry::Purpose::kEnd);
      if (entry.is_open()) return abort(own);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status();  // it is at work: its next wait ends
  });
}

sparclResult_t sparclCommDestroy(sparclComm_t comm) {
  if (comm == nullptr) return sparclSuccess;
  return guarded([&]() -> Status {
    sparcl::api::Held<sparclComm> own(comm, "comm");
    if (!own.status().ok()) return own.status().with_prefix("sparclCommDestroy: ");
    // In a child of fork() its connections, and what lies in shared memory, are the parent's: they
    // are left alone.
    if (own->pid != ::getpid()) return Status();
    Entry entry(own.get(), Entry::Purpose::kDestroy);
    SPARCL_RETURN_IF_ERROR(entry.refusal().with_prefix("sparclCommDestroy: "));
    SPARCL_RETURN_IF_ERROR(own.destroy("comm").with_prefix("sparclCommDestroy: "));
    entry.forget();
    return Status();
  });
}

sparclResult_t sparclCommLastReport(sparclComm_t comm, sparclReport_t* report) {
  const auto write = [&](const sparclComm& own) -> Status {
    if (report == nullptr) return Status(Code::kInvalidArgument, "report is NULL");
    return sparcl::api::write_report(own.last_report, report);
  };
  return guarded_in(__func__, comm, write, Entry::Purpose::kLook);
}

}  // extern "C"
