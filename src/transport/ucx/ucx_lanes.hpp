#pragma once
// The lanes that UCX chose for an endpoint. UCX tells them only as text; ucp_ep_query has them from
// UCX 1.15 on.

#include <ucp/api/ucp.h>

#include <string>

namespace sparcl::transport {

// "posix/memory, cma/memory"; empty: the text of UCX has another format.
std::string lanes_of(ucp_ep_h endpoint);

}  // namespace sparcl::transport
