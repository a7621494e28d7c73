#pragma once

#include "src/transport/ucx_plugin.hpp"

namespace sparcl::tool {

// Opens UCX, and closes it, in a child process, because UCX ends its process if one of its own
// calls fails. The error then names the signal.
Status try_out_ucx(const transport::UcxPlugin& plugin);

}  // namespace sparcl::tool
