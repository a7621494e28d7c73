#pragma once
// A UCX context with one worker: what a rank has of UCX before it knows its peers.

#include <ucp/api/ucp.h>

#include <memory>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl {

class UcxWorker {
 public:
  static Result<std::unique_ptr<UcxWorker>> open();
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  bool moves_device_memory() const { return moves_device_memory_; }
  // By which peers reach this worker.
  Result<std::vector<std::byte>> address() const;

  // Sleeps until something may have come, or the time is up; extra_fd, if not -1, wakes it as well.
  void sleep(double seconds, int extra_fd);

 private:
  UcxWorker() = default;
  Status init();

  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;  // the worker's
  bool moves_device_memory_ = false;
};

}  // namespace sparcl
