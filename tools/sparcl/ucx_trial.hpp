#pragma once

#include "src/transport/ucx_plugin.hpp"

namespace sparcl::tool {

// Opens UCX, and closes it, in a child process: UCX ends its process where one of its own calls
// fails that it counts on. Then the error says by which signal.
Status try_out_ucx(const transport::UcxPlugin& plugin);

}  // namespace sparcl::tool
