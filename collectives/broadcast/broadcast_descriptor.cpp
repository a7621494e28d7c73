#include "collectives/broadcast/broadcast_descriptor.hpp"

#include <fmt/format.h>

#include <optional>

#include "collectives/broadcast/fanout.hpp"
#include "collectives/broadcast/part_list.hpp"

namespace sparcl::collectives::broadcast {
namespace {

std::string_view setting(std::uint8_t) { return "SPARCL_ALGO_BROADCAST"; }

std::string_view algorithm(std::uint8_t row) {
  if (row == kNcclFanout) return kNcclFanoutName;
  return row < fanout_table().size() ? fanout_table()[row].name : "unknown";
}

std::string first_part(const CallPair& calls) {
  const auto where = first_difference(sketch_in(calls.least_sketch), sketch_in(calls.most_sketch));
  if (!where) return {};
  const auto& own = *static_cast<const PartList*>(calls.own);
  return fmt::format("tensors (names, types, shapes or order), first in {}", own.describe(*where));
}

}  // namespace

const CollectiveDescriptor kBroadcastDelta{
    CallKind::kBroadcastDelta, "sparclBroadcastDelta", true, setting, algorithm, first_part};
const CollectiveDescriptor kBroadcastUpdate{
    CallKind::kBroadcastUpdate, "sparclBroadcastUpdate", true, setting, algorithm, first_part};
const CollectiveDescriptor kBroadcastSparse{CallKind::kBroadcastSparse, "sparclBroadcastSparse",
                                            true, setting, algorithm};

}  // namespace sparcl::collectives::broadcast
