#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "src/api/call.hpp"
#include "src/api/call_checks.hpp"
#include "src/api/error.hpp"
#include "src/base/caught_error.hpp"
#include "src/base/failpoint.hpp"
#include "src/net/heartbeat/watch_clock.hpp"
#include "src/net/socket.hpp"

namespace sparcl::api {
namespace {

// Steps of one sparclTest: enough to hand a fragment on, few enough to return at once.
constexpr int kStepsPerTest = 32;

// The task of the call is done: its outputs are written, and its report is the comm's last.
Status complete(sparclRequest& request) {
  sparclComm& comm = *request.comm;
  Status status = request.task.result();
  // An exception inside the call: the peers know nothing of it. The communicator is unusable from
  // now on, and says so.
  if (!status.ok() && status.scope() == Scope::kComm) {
    comm.engine.fail(status, comm.transport->rank());
    status = comm.engine.health();
  }
  if (!comm.engine.health().ok()) comm.join_healths();  // what streams hold of it ends, too
  request.call->complete(status);
  comm.trail.end(request.number, status.code(), request.report.traffic.bytes_sent,
                 request.report.traffic.bytes_received);
  if (!request.call->loss().ok()) request.report.applied = false;
  // That of the exchange was made before it, too.
  request.report.seconds_predicted =
      request.expected_s.value_or(first_guess(request.work, request.report.seconds_predicted));
  if (status.ok()) comm.predictor.learn(request.work, request.report.seconds);
  comm.last_report = request.report;
  if (status.ok()) {
    status = request.call->loss();
    if (status.ok()) request.call->note_written(request.arrays);
  }
  if (!status.ok()) return request.arrays.give_back(std::move(status));
  const Status written = request.arrays.give_back(Status());
  if (!written.ok()) comm.last_report.applied = request.report.applied = false;
  return written;
}

// complete(); then the request keeps nothing of the comm. If an exception stops complete(), the
// comm ends.
Status settle(sparclRequest& request) {
  std::erase(request.comm->pending, &request);
  Status status;
  try {
    status = complete(request);
  } catch (const std::exception&) {  // the ranks no longer hold the same
    status = caught_error("a call's results could not be written");
    request.comm->engine.fail(status, request.comm->transport->rank());
  }
  request.arrays = {};
  request.task = {};
  request.call = nullptr;
  request.range.reset();
  return status;
}

// error_text(): makes the text of an error.
template <class ErrorText>
void keep_outcome(sparclRequest& request, const Status& status, ErrorText&& error_text) noexcept {
  request.outcome = {static_cast<sparclResult_t>(status.code()), {}, request.report};
  try {
    if (!status.ok()) request.outcome.text = error_text();
  } catch (const std::exception&) {
    request.outcome.text = no_memory().message();
  }
  request.comm = nullptr;
  request.is_settled.store(true, std::memory_order_release);
}

// The result of a blocking call, or of a call that gets no request.
sparclResult_t retire(std::unique_ptr<sparclRequest> request) {
  sparclComm* const comm = request->comm;
  return report_error(comm, settle(*request));
}

// An exception outside the call's own coroutine: the call ends with the communicator. If a second
// exception interrupts this, the request stays with the communicator and ends with it.
sparclResult_t end_early(std::unique_ptr<sparclRequest> request, const Status& why) {
  sparclRequest* const kept = request.release();
  kept->handle.reset();  // no caller has it
  sparclComm& comm = *kept->comm;
  comm.engine.fail(why, comm.transport->rank());
  comm.engine.finish(kept->task);
  return retire(std::unique_ptr<sparclRequest>(kept));
}

// The request ends: its caller gets the result.
sparclResult_t hand_over(Held<sparclRequest> held, sparclComm* comm, sparclRequest_t* request,
                         sparclReport_t* report) {
  Outcome outcome = held->outcome;
  if (const Status gone = held.destroy("request"); !gone.ok()) return report_error(comm, gone);
  *request = nullptr;
  if (report != nullptr) (void)write_report(outcome.report, report);
  return report_text(comm, outcome.result, std::move(outcome.text));
}

// Runs use(comm, request) in the request's communicator. use() returns whether the call's task is
// done. A request that has outlived its communicator has its outcome already.
template <class Use>
sparclResult_t with_request(const char* name, sparclRequest_t* request, const Status& arguments,
                            sparclReport_t* report, Use&& use) {
  return guarded([&]() -> sparclResult_t {
    const auto answer = [&](sparclComm* comm, const Status& status) {
      return report_error(comm, status.with_prefix(std::string(name) + ": "));
    };
    if (request == nullptr)
      return answer(nullptr, Status(Code::kInvalidArgument, "request is NULL"));
    if (*request == nullptr) return answer(nullptr, arguments);
    Held<sparclRequest> held(*request, "request");
    if (!held.status().ok()) return answer(nullptr, held.status());
    const Held<sparclComm> comm(held->comm_handle, "the request's communicator");
    const Entry entry(comm.get());
    if (held->is_settled.load(std::memory_order_acquire)) {
      return arguments.ok() ? hand_over(std::move(held), nullptr, request, report)
                            : answer(nullptr, arguments);
    }
    if (!comm.status().ok() || !entry.is_open())
      return answer(nullptr, comm.status().ok() ? entry.refusal() : comm.status());
    return without_exceptions(comm.get(), [&]() -> sparclResult_t {
      if (!arguments.ok()) return answer(comm.get(), arguments);
      if (!use(*comm, *held)) return sparclSuccess;
      const Status status = settle(*held);
      keep_outcome(*held, status, [&] { return error_text(comm.get(), status); });
      return hand_over(std::move(held), comm.get(), request, report);
    });
  });
}

// Whether all requests are of one communicator: then one engine moves them on.
bool share_communicator(std::span<const sparclRequest_t> requests) {
  sparclComm_t shared = nullptr;
  for (sparclRequest_t request : requests) {
    const Held<sparclRequest> held = hold_if_given(request, "request");
    if (held.get() == nullptr) continue;
    if (shared != nullptr && shared != held->comm_handle) return false;
    shared = held->comm_handle;
  }
  return true;
}

// The results of sparclWaitAll, and the text of the one that it returns.
class AllResults {
 public:
  AllResults(const char* name, std::span<sparclRequest_t> requests, sparclResult_t* results)
      : name_(name), requests_(requests), results_(results), is_over_(requests.size()) {}

  sparclResult_t wait() {
    if (share_communicator(requests_)) {
      for (std::size_t i = 0; i < requests_.size(); ++i) wait_for(i);
    } else {
      wait_in_turns();
    }
    return report_text(nullptr, first_, std::move(text_));
  }

 private:
  void wait_for(std::size_t i) {
    end(i, with_request(name_, &requests_[i], Status(), nullptr,
                        [](sparclComm& comm, sparclRequest& pending) {
                          comm.engine.finish(pending.task);
                          return true;
                        }));
  }

  // Other ranks may wait for the communicators in another order: all move on.
  void wait_in_turns() {
    constexpr int kMaxYields = 1000;
    watch_.wait_begins(net::monotonic_seconds());
    for (int idle = 0; take_turn(); idle = has_moved_ ? 0 : std::min(idle + 1, kMaxYields)) {
      if (idle < kMaxYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  // Whether some are not over.
  bool take_turn() {
    bool is_waiting = false;
    has_moved_ = false;
    const bool is_watch_due = watch_.is_due(net::monotonic_seconds());
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (is_over_[i]) continue;
      const sparclResult_t result = with_request(name_, &requests_[i], Status(), nullptr,
                                                 [&](sparclComm& comm, sparclRequest& pending) {
                                                   if (!pending.task.done() && comm.engine.step())
                                                     has_moved_ = true;
                                                   if (!pending.task.done() && is_watch_due) {
                                                     comm.transport->leave_waiting();
                                                     comm.engine.look_at_wait();
                                                   }
                                                   return pending.task.done();
                                                 });
      if (requests_[i] == nullptr || result != sparclSuccess) {
        end(i, result);
      } else {
        is_waiting = true;
      }
    }
    return is_waiting;
  }

  void end(std::size_t i, sparclResult_t result) {
    is_over_[i] = true;
    if (results_ != nullptr) results_[i] = result;
    if (result == sparclSuccess || (first_ != sparclSuccess && first_index_ < i)) return;
    first_ = result;
    first_index_ = i;
    text_ = sparclGetLastError(nullptr);
  }

  const char* name_;
  std::span<sparclRequest_t> requests_;
  sparclResult_t* results_;
  std::vector<bool> is_over_;
  bool has_moved_ = false;
  net::WatchClock watch_;  // each communicator looks after the peers that it waits for
  sparclResult_t first_ = sparclSuccess;  // of those that failed
  std::size_t first_index_ = 0;
  std::string text_;
};

Status check_requests(std::size_t count, const sparclRequest_t* requests) {
  SPARCL_RETURN_IF_ERROR(check_array("count", count, sizeof(sparclRequest_t)));
  if (count > 0 && requests == nullptr) return Status(Code::kInvalidArgument, "requests is NULL");
  return Status();
}

}  // namespace

sparclResult_t launch(sparclComm* comm, std::unique_ptr<Call> call, sparclRequest_t* request,
                      DeviceArrays arrays) {
  auto made = std::make_unique<sparclRequest>();
  if (request != nullptr) made->handle.emplace(made.get());
  made->comm = comm;
  made->comm_handle = comm->handle.get();
  made->work = call->work();
  made->work.operation = call->collective().name;
  made->work.is_blocking = request == nullptr;
  made->expected_s = comm->predictor.expect(made->work);
  made->call = std::move(call);
  made->arrays = std::move(arrays);
  made->number = comm->next_call;
  comm->next_call = next_call_number(comm->next_call);
  made->task = made->call->run(made->call->settings(*comm), made->number, made->report);
  flight::CallNote note = made->call->note();
  note.operation = comm::shown_name(made->call->collective());
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
  *request = made.release()->handle->get();
  return sparclSuccess;
}

void settle_without_comm(sparclRequest& request) {
  const int rank = request.comm->transport->rank();
  const Status status = settle(request);
  if (!request.handle) {  // of a call that could not go on (end_early)
    delete &request;
    return;
  }
  keep_outcome(request, status, [&] { return fmt::format("rank {}: {}", rank, status.message()); });
}

}  // namespace sparcl::api

using sparcl::Code;
using sparcl::Status;

extern "C" {

sparclResult_t sparclTest(sparclRequest_t* request, int* done, sparclReport_t* report) {
  const Status arguments = done == nullptr ? Status(Code::kInvalidArgument, "done is NULL")
                                           : sparcl::api::check_report(report);
  const auto move_on = [](sparclComm& comm, const sparclRequest& pending) {
    for (int i = 0; i < sparcl::api::kStepsPerTest && !pending.task.done(); ++i) {
      if (!comm.engine.step()) break;
    }
    if (!pending.task.done()) comm.transport->leave_waiting();
    return pending.task.done();
  };
  const sparclResult_t result =
      sparcl::api::with_request(__func__, request, arguments, report, move_on);
  if (done != nullptr && request != nullptr) *done = *request == nullptr ? 1 : 0;
  return result;
}

sparclResult_t sparclWait(sparclRequest_t* request, sparclReport_t* report) {
  return sparcl::api::with_request(__func__, request, sparcl::api::check_report(report), report,
                                   [&](sparclComm& comm, sparclRequest& pending) {
                                     comm.engine.finish(pending.task);
                                     return true;
                                   });
}

sparclResult_t sparclWaitAll(size_t count, sparclRequest_t* requests, sparclResult_t* results) {
  using sparcl::api::AllResults;
  return sparcl::api::guarded([&]() -> sparclResult_t {
    const Status wrong =
        sparcl::api::in_call("sparclWaitAll", sparcl::api::check_requests(count, requests));
    if (!wrong.ok()) return sparcl::api::report_error(nullptr, wrong);
    return AllResults("sparclWaitAll", {requests, count}, results).wait();
  });
}

}  // extern "C"
