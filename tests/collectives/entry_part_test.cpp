#include "collectives/sparse_sum/entry_part.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/base/buffer_pool.hpp"

namespace sparcl::collectives {
namespace {

std::vector<std::uint64_t> indices_of(const kernels::KernelSet& kernels, const Buffer& part, const BlockRun& run) {
  std::optional<PartView> view = PartView::read(kernels, part.bytes(), run, 0);
  if (!view) return {};
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  std::vector<std::uint64_t> indices;
  for (; !view->at_end(); view->next()) {
    const std::uint16_t* const positions = view->positions(kernels, scratch.data());
    for (std::size_t i = 0; i < view->block_entries(); ++i) indices.push_back(run.base_of(view->block()) + positions[i]);
  }
  return indices;
}

// A block summed as marks whose entries turn out to be few: kernels read behind the marks, up to the slack (seen by
// AddressSanitizer).
TEST(EntryPart, MarksOfFewEntriesBecomePositions) {
  const BlockRun run{0, 1, 12};
  const std::vector<std::size_t> elements{0, 63, 64, run.block_elements() - 1};
  for (const kernels::KernelSet* kernels : {&kernels::reference_kernels(), &kernels::cpu_kernels()}) {
    BufferPool buffers;
    PartWriter writer(buffers, *kernels, run, 0, run.block_elements(), 1);
    std::memset(writer.places(), 0, run.block_elements() / 8);
    for (const std::size_t element : elements) writer.places()[element / 8] |= std::byte{1} << (element % 8);
    writer.end(0, elements.size(), true);
    EXPECT_EQ(indices_of(*kernels, writer.finish(), run), std::vector<std::uint64_t>(elements.begin(), elements.end()));
  }
}

// Supports travel without values: there is nothing to copy (seen by UndefinedBehaviorSanitizer).
TEST(EntryPart, EntriesMayHaveNoValues) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  const BlockRun run{2, 3, 12};
  const std::vector<std::uint64_t> indices{run.first_index(), run.first_index() + 5000, run.end_index() - 1};
  BufferPool buffers;
  EXPECT_EQ(indices_of(kernels, write_part(buffers, kernels, run, indices, nullptr, 0), run), indices);
}

}  // namespace
}  // namespace sparcl::collectives
