#pragma once
// Which lanes UCX chose for an endpoint, as it tells them only in prose (ucp_ep_query has them from
// UCX 1.15 on).

#include <ucp/api/ucp.h>

#include <string>

namespace sparcl::transport {

// "posix/memory, cma/memory"; empty: UCX says nothing that is understood here.
std::string lanes_of(ucp_ep_h endpoint);

}  // namespace sparcl::transport
