#include "collectives/table/collective_table.hpp"

#include <array>

#include "collectives/broadcast/broadcast_descriptor.hpp"
#include "collectives/masked/masked.hpp"
#include "collectives/sparse_sum/sparse_all_reduce.hpp"
#include "collectives/top_k/top_k_all_reduce.hpp"

namespace sparcl::collectives {

comm::CollectiveTable collective_table() {
  static constexpr std::array kTable{&broadcast::kBroadcastDelta,   &broadcast::kBroadcastUpdate,
                                     &broadcast::kBroadcastSparse,  &masked::kAllReduceMasked,
                                     &sparse_sum::kAllReduceSparse, &top_k::kAllReduceTopK};
  return kTable;
}

}  // namespace sparcl::collectives
