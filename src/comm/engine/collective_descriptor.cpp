#include "src/comm/engine/collective_descriptor.hpp"

#include <algorithm>
#include <array>

namespace sparcl::comm {

const char* shown_name(const CollectiveDescriptor& collective) {
  constexpr std::string_view kLibrary = "sparcl";
  return collective.name.data() + (collective.name.starts_with(kLibrary) ? kLibrary.size() : 0);
}

const CollectiveDescriptor* find_collective(CollectiveTable table, std::uint32_t operation) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const CollectiveDescriptor* each) {
        return static_cast<std::uint32_t>(each->kind) == operation;
      });
  return found == table.end() ? nullptr : *found;
}

std::string location_text(bool is_between_gpus, bool other_is_between_gpus) {
  if (is_between_gpus == other_is_between_gpus) return {};
  return is_between_gpus ? ", arrays in device memory" : ", arrays in the host's memory";
}

std::string location_of_arrays(const CallFingerprint& call, const CallFingerprint& other) {
  return location_text(call.algorithm == kDeviceAlgorithm, other.algorithm == kDeviceAlgorithm);
}

std::string_view reduction_name(std::uint8_t reduction) {
  constexpr std::array<std::string_view, 5> kNames{"sum", "prod", "max", "min",
                                                   "avg"};  // as sparclRedOp_t numbers them
  return reduction < kNames.size() ? kNames[reduction] : "an unknown reduction";
}

}  // namespace sparcl::comm
