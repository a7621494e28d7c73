#pragma once
// A call in flight: its arguments, its coroutine, and what it writes for the user when it is over.

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "collectives/broadcast/broadcast.hpp"
#include "src/api/call_predictor.hpp"
#include "src/api/comm.hpp"
#include "src/api/device_arrays.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::api {

class Call {
 public:
  virtual ~Call() = default;
  virtual const comm::CollectiveDescriptor& collective() const = 0;
  virtual flight::CallNote note() const = 0;  // for the flight record, without its name
  virtual CallWork work() const = 0;          // before it begins
  virtual comm::Task run(const comm::CommContext& context, std::uint32_t number,
                         comm::CallReport& report) = 0;
  // Once, when the call is over: writes outputs that only a success (or Truncated) may write.
  virtual void complete(const Status& status) = 0;
  // After a success: why its outputs are not where they belong all the same.
  virtual Status loss() const { return {}; }
  // After a success: how much it has written, where that is less than its arrays' room.
  virtual void note_written(DeviceArrays&) const {}

  // Before it runs: the settings of this call, to be changed by its options.
  comm::CommContext& override_settings(const sparclComm& comm) {
    if (own_settings_ == nullptr) own_settings_ = std::make_unique<comm::CommContext>(comm.context);
    return *own_settings_;
  }
  const comm::CommContext& settings(const sparclComm& comm) const {
    return own_settings_ != nullptr ? *own_settings_ : comm.context;
  }

 private:
  std::unique_ptr<comm::CommContext> own_settings_;  // nullptr: the communicator's
};

}  // namespace sparcl::api

namespace sparcl::api {

// The results of a finished call.
struct Outcome {
  sparclResult_t result = sparclSuccess;
  std::string text;  // of an error
  comm::CallReport report;
};

}  // namespace sparcl::api

struct sparclRequest {
  std::optional<sparcl::api::OwnHandle<sparclRequest>> handle;  // of a non-blocking call
  sparclComm* comm = nullptr;                                   // until the call is settled
  sparclComm_t comm_handle = nullptr;                           // may be gone
  std::unique_ptr<sparcl::api::Call> call;
  sparcl::api::DeviceArrays arrays;
  std::uint32_t number = 0;
  sparcl::api::CallWork work;
  std::optional<double> expected_s;  // before the call
  sparcl::comm::CallReport report;
  sparcl::comm::Task task;
  std::optional<sparcl::StageRange> range;  // from its start until it is settled
  sparcl::api::Outcome outcome;             // once it is
  std::atomic<bool> is_settled{false};
};

namespace sparcl::api {

// Starts `call` on comm. With request nullptr it runs to its end and its result is returned; else
// it is left in flight. arrays: what it works on, given back when it is over.
sparclResult_t launch(sparclComm* comm, std::unique_ptr<Call> call, sparclRequest_t* request,
                      DeviceArrays arrays = {});

// Before the communicator is destroyed, once the task of the call is done: the request keeps the
// call's outcome.
void settle_without_comm(sparclRequest& request);

}  // namespace sparcl::api
