#pragma once
// What a call's fingerprint is called in a text. The numbers may have come over the wire: any may stand there.

#include <cstdint>
#include <string>
#include <string_view>

namespace sparcl::collectives {

std::string_view operation_name(std::uint32_t operation);  // "sparclBroadcastDelta"
bool has_root(std::uint32_t operation);
std::string_view reduction_name(std::uint8_t reduction);                         // "sum"
std::string_view algorithm_setting(std::uint32_t operation, std::uint32_t row);  // "SPARCL_ALGO_BROADCAST"
std::string_view algorithm_name(std::uint32_t operation, std::uint32_t row);     // "chain"

// What a call's options are where another's are others; empty where the fingerprint has them as a hash.
std::string differing_options(std::uint32_t operation, std::uint64_t detail, std::uint64_t other);

}  // namespace sparcl::collectives
