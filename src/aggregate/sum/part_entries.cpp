#include "src/aggregate/sum/part_entries.hpp"

namespace sparcl::aggregate {

bool list_indices(const kernels::KernelSet& kernels, sparse::PartView view,
                  const sparse::BlockRun& run, std::uint64_t end,
                  std::vector<std::uint64_t>& indices) {
  indices.resize(view.entries());
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  std::uint64_t* at = indices.data();
  for (; !view.at_end(); view.next()) {
    const std::size_t count = view.block_entries();
    kernels.entries.raise_positions(view.positions(kernels, scratch.data()), count,
                                    run.base_of(view.block()), kernels::Output::kCached, at);
    at += count;
  }
  return kernels.entries.ascend(indices.data(), indices.size()) &&
         (indices.empty() || indices.back() < end);
}

}  // namespace sparcl::aggregate
