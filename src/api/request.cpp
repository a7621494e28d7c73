#include <algorithm>
#include <exception>

#include "src/api/call.hpp"
#include "src/api/error.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/failpoint.hpp"

namespace sparcl::api {
namespace {

// Steps of one sparclTest: enough to hand a fragment on, few enough to return at once.
constexpr int kStepsPerTest = 32;

// The call is over: its outputs are written, its report is the comm's last, and the request is gone.
sparclResult_t retire_from(sparclComm& comm, std::unique_ptr<sparclRequest> request) {
  std::erase(comm.pending, request.get());
  Status status = request->task.result();
  // An exception inside the call: the peers know nothing of it. What it leaves is a communicator that is of no use, and says so.
  if (!status.ok() && status.scope() == Scope::kComm) {
    comm.engine.fail(status, comm.transport->rank());
    status = comm.engine.health();
  }
  if (!comm.engine.health().ok()) comm.join_healths();  // what streams hold of it ends, too
  request->call->complete(status);
  comm.trail.end(request->number, status.code(), request->report.traffic.bytes_sent, request->report.traffic.bytes_received);
  if (!request->call->loss().ok()) request->report.applied = false;
  comm.last_report = request->report;
  const sparclResult_t result = comm.finish(status);
  if (result == sparclSuccess) {
    if (const Status loss = request->call->loss(); !loss.ok()) return report_error(&comm, loss);
    request->call->note_written(request->arrays);
  }
  return request->arrays.give_back(result);
}

// The same. If an exception leaves this rank's end of the call undone, the ranks no longer hold the same: the communicator ends.
sparclResult_t retire(std::unique_ptr<sparclRequest> request) {
  sparclComm& comm = *request->comm;
  try {
    return retire_from(comm, std::move(request));
  } catch (const std::exception&) {
    comm.engine.fail(caught_error("a call's results could not be written"), comm.transport->rank());
    throw;
  }
}

// An exception outside the call's own coroutine: the call ends with the communicator. If that is interrupted, too, the request
// stays with the communicator, whose end ends it.
sparclResult_t end_early(std::unique_ptr<sparclRequest> request, const Status& why) {
  sparclRequest* const kept = request.release();
  sparclComm& comm = *kept->comm;
  comm.engine.fail(why, comm.transport->rank());
  comm.engine.finish(kept->task);
  return retire(std::unique_ptr<sparclRequest>(kept));
}

sparclComm_t comm_of(const sparclRequest_t* request) {
  return request != nullptr && *request != nullptr ? (*request)->comm : nullptr;
}

sparclResult_t retire_with_report(std::unique_ptr<sparclRequest> request, sparclReport_t* into) {
  const sparclComm& comm = *request->comm;
  const sparclResult_t result = retire(std::move(request));
  if (into != nullptr) (void)write_report(comm.last_report, into);
  return result;
}

}  // namespace

sparclResult_t launch(sparclComm_t comm, std::unique_ptr<Call> call, sparclRequest_t* request, DeviceArrays arrays) {
  auto made = std::make_unique<sparclRequest>();
  made->comm = comm;
  made->call = std::move(call);
  made->arrays = std::move(arrays);
  made->number = comm->next_call;
  comm->next_call = next_call_number(comm->next_call);
  made->task = made->call->run(comm->context, made->number, made->report);
  const flight::CallNote note = made->call->note();
  made->range.emplace(note.operation);
  SPARCL_FAILPOINT("call.made");
  comm->pending.reserve(comm->pending.size() + 1);
  comm->engine.start(made->task);
  comm->pending.push_back(made.get());
  comm->trail.begin(made->number, note);
  // From here on messages may point into the task: it must come to its end before it goes.
  try {
    SPARCL_FAILPOINT("call.started");
    if (request == nullptr) {
      comm->engine.finish(made->task);
    } else {
      comm->engine.step();
    }
  } catch (const std::exception&) {
    return end_early(std::move(made), caught_error("a call could not go on"));
  }
  if (request == nullptr) return retire(std::move(made));
  *request = made.release();
  return sparclSuccess;
}

}  // namespace sparcl::api

using sparcl::Code;
using sparcl::Status;
using sparcl::api::guarded;
using sparcl::api::report_error;

extern "C" {

sparclResult_t sparclTest(sparclRequest_t* request, int* done, sparclReport_t* report) {
  const sparclComm_t comm = sparcl::api::comm_of(request);
  return guarded(comm, [&]() -> sparclResult_t {
    if (request == nullptr) return report_error(comm, Status(Code::kInvalidArgument, "sparclTest: request is NULL"));
    if (done == nullptr) return report_error(comm, Status(Code::kInvalidArgument, "sparclTest: done is NULL"));
    if (Status bad = sparcl::api::check_report(report); !bad.ok()) return report_error(comm, bad.with_prefix("sparclTest: "));
    *done = 1;
    if (*request == nullptr) return sparclSuccess;
    sparclRequest& pending = **request;
    for (int i = 0; i < sparcl::api::kStepsPerTest && !pending.task.done(); ++i) {
      if (!pending.comm->engine.step()) break;
    }
    if (!pending.task.done()) {
      pending.comm->transport->leave_waiting();
      *done = 0;
      return sparclSuccess;
    }
    return sparcl::api::retire_with_report(std::unique_ptr<sparclRequest>(std::exchange(*request, nullptr)), report);
  });
}

sparclResult_t sparclWait(sparclRequest_t* request, sparclReport_t* report) {
  const sparclComm_t comm = sparcl::api::comm_of(request);
  return guarded(comm, [&]() -> sparclResult_t {
    if (request == nullptr) return report_error(comm, Status(Code::kInvalidArgument, "sparclWait: request is NULL"));
    if (Status bad = sparcl::api::check_report(report); !bad.ok()) return report_error(comm, bad.with_prefix("sparclWait: "));
    if (*request == nullptr) return sparclSuccess;
    sparclRequest& pending = **request;
    pending.comm->engine.finish(pending.task);
    return sparcl::api::retire_with_report(std::unique_ptr<sparclRequest>(std::exchange(*request, nullptr)), report);
  });
}

}  // extern "C"
