#pragma once
// The settings of a communicator: from its config, else from the environment.

#include "sparcl/core.h"
#include "src/base/status.hpp"
#include "src/comm/comm_context.hpp"

namespace sparcl::api {

struct Configuration {
  comm::CommContext context;
  double timeout_s = 0;
  unsigned threads = 1;
  bool early_blocking = true;
  bool early_nonblocking = false;
  bool uses_device_kernels = true;
  bool keeps_device_snapshot = true;
};

// given: may be nullptr.
Result<Configuration> configure(const sparclConfig_t* given);

}  // namespace sparcl::api
