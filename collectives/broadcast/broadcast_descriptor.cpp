#include "collectives/broadcast/broadcast_descriptor.hpp"

#include <fmt/format.h>

#include <optional>

#include "collectives/broadcast/dense_choice.hpp"
#include "collectives/broadcast/fanout.hpp"
#include "collectives/broadcast/part_list.hpp"

namespace sparcl::collectives::broadcast {
namespace {

std::vector<std::string_view> names() {
  std::vector<std::string_view> all = comm::row_names(fanout_table());
  all.emplace_back(kNcclFanoutName);
  all.emplace_back(kDenseName);
  return all;
}

const comm::AlgorithmChoice& choice(std::uint8_t) { return kFanoutAlgorithms; }

std::string_view algorithm(std::uint8_t row) {
  if (row == kNcclFanout) return kNcclFanoutName;
  if (row == kDense) return kDenseName;
  return row < fanout_table().size() ? fanout_table()[row].name : "unknown";
}

std::string first_part(const CallPair& calls) {
  const auto where = first_difference(sketch_in(calls.lower_sketch), sketch_in(calls.upper_sketch));
  if (!where) return {};
  const auto& own = *static_cast<const PartList*>(calls.own);
  return fmt::format("tensors (names, types, shapes or order), first in {}", own.describe(*where));
}

}  // namespace

const comm::AlgorithmChoice kFanoutAlgorithms{
    "ALGO_BROADCAST",
    "Fan-out of the sparse broadcast. auto: the algorithm with the smallest predicted time; after "
    "sparclCommUseNccl, nccl for blocking calls on large or unknown sizes. nccl: NCCL for all "
    "blocking calls, auto for the others. dense: arrays as they are, without looking for changes; "
    "auto for calls that need changes (a selection, lossy values, marks, SPARCL_VERIFY=full).",
    names};

const CollectiveDescriptor kBroadcastDelta{
    CallKind::kBroadcastDelta, "sparclBroadcastDelta", true, choice, algorithm, first_part};
const CollectiveDescriptor kBroadcastUpdate{
    CallKind::kBroadcastUpdate, "sparclBroadcastUpdate", true, choice, algorithm, first_part};
const CollectiveDescriptor kBroadcastSparse{CallKind::kBroadcastSparse, "sparclBroadcastSparse",
                                            true, choice, algorithm};

}  // namespace sparcl::collectives::broadcast
