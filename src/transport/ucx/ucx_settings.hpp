#pragma once
// The library's choice for settings of UCX that the user has left open. The environment is not
// changed.

#include <ucp/api/ucp.h>

#include "src/base/status.hpp"

namespace sparcl::transport {

// Network devices by SPARCL_INTERFACE; larger segments over TCP. InvalidArgument: no interface has
// a name in SPARCL_INTERFACE.
Status adapt_ucx_settings(ucp_config_t* config);

}  // namespace sparcl::transport
