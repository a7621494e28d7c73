#pragma once
// What a call's fingerprint is called in a text. The numbers may have come over the wire: any may stand there.

#include <cstdint>
#include <string_view>

namespace sparcl::collectives {

std::string_view operation_name(std::uint32_t operation);  // "sparclBroadcastDelta"
bool has_root(std::uint32_t operation);
std::string_view reduction_name(std::uint8_t reduction);                      // "sum"
std::string_view algorithm_setting(std::uint32_t operation);                  // "SPARCL_ALGO_BROADCAST"
std::string_view algorithm_name(std::uint32_t operation, std::uint32_t row);  // "chain"

}  // namespace sparcl::collectives
