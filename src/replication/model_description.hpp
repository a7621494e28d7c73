#pragma once
// A publisher's description of its model (message.hpp, ModelReply), as a subscriber with trusted
// keys takes it.

#include "src/replication/message.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::replication {

// Unauthorized: it is not signed by a trusted key, or is of an earlier publisher than `epoch`.
Status check_description(const ModelReply& reply, const trust::TrustedKeys& trusted,
                         std::uint64_t epoch);

}  // namespace sparcl::replication
