#pragma once
// A call in flight: its arguments, its coroutine, and what it writes for the user when it is over.

#include <memory>
#include <optional>

#include "collectives/broadcast/broadcast.hpp"
#include "src/api/comm.hpp"
#include "src/api/device_arrays.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::api {

class Call {
 public:
  virtual ~Call() = default;
  virtual flight::CallNote note() const = 0;  // for the flight record
  virtual collectives::Task run(const collectives::CommContext& context, std::uint32_t number, collectives::CallReport& report) = 0;
  // Once, when the call is over: writes outputs that only a success (or Truncated) may write.
  virtual void complete(const Status& status) = 0;
  // After a success: why its outputs are not where they belong all the same.
  virtual Status loss() const { return {}; }
  // After a success: how much it has written, where that is less than its arrays' room.
  virtual void note_written(DeviceArrays&) const {}
};

}  // namespace sparcl::api

struct sparclRequest {
  sparclComm* comm = nullptr;
  std::unique_ptr<sparcl::api::Call> call;
  sparcl::api::DeviceArrays arrays;
  std::uint32_t number = 0;
  sparcl::collectives::CallReport report;
  sparcl::collectives::Task task;
  std::optional<sparcl::StageRange> range;  // from its start until it is retired
};

namespace sparcl::api {

// Starts `call` on comm. With request nullptr it runs to its end and its result is returned; else it is left in flight. arrays:
// what it works on, given back when it is over.
sparclResult_t launch(sparclComm_t comm, std::unique_ptr<Call> call, sparclRequest_t* request, DeviceArrays arrays = {});

}  // namespace sparcl::api
