#pragma once
// Short questions to a publisher from a process that is no replica of it.

#include <string>

#include "src/replication/message.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::replication {

// JSON (docs/reference/protocol.md). Timeout, RemoteError: the address is named.
Result<std::string> query_status(const std::string& address, double timeout_s,
                                 const ClientSecurity& security = {});
// latest: what the asker has applied last.
Result<ModelReply> query_model(const std::string& address, double timeout_s,
                               const LatestHeld& latest = {}, const ClientSecurity& security = {});

}  // namespace sparcl::replication
