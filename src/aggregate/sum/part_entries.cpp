#include "src/aggregate/sum/part_entries.hpp"

#include <vector>

namespace sparcl::aggregate {

bool write_indices(const kernels::KernelSet& kernels, sparse::PartView view,
                   const sparse::BlockRun& run, std::uint64_t end, std::uint64_t* indices) {
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  const std::size_t entries = view.entries();
  std::uint64_t* at = indices;
  for (; !view.at_end(); view.next()) {
    const std::size_t count = view.block_entries();
    kernels.entries.raise_positions(view.positions(kernels, scratch.data()), count,
                                    run.base_of(view.block()), kernels::Output::kCached, at);
    at += count;
  }
  return kernels.entries.ascend(indices, entries) && (entries == 0 || indices[entries - 1] < end);
}

}  // namespace sparcl::aggregate
