#include "src/sparse/parts/entry_part.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "src/base/buffer_pool.hpp"

namespace sparcl::sparse {
namespace {

std::vector<std::uint64_t> indices_of(const kernels::KernelSet& kernels, const Buffer& part,
                                      const BlockRun& run) {
  std::optional<PartView> view = PartView::read(kernels, part.bytes(), run, 0);
  if (!view) return {};
  std::vector<std::uint16_t> scratch(run.block_elements() + kernels::kEntrySlack);
  std::vector<std::uint64_t> indices;
  for (; !view->at_end(); view->next()) {
    const std::uint16_t* const positions = view->positions(kernels, scratch.data());
    for (std::size_t i = 0; i < view->block_entries(); ++i)
      indices.push_back(run.base_of(view->block()) + positions[i]);
  }
  return indices;
}

// A block summed as marks whose entries turn out to be few: kernels read behind the marks, up to
// the slack (seen by AddressSanitizer).
TEST(EntryPart, MarksOfFewEntriesBecomePositions) {
  const BlockRun run{0, 1, 12};
  const std::vector<std::size_t> elements{0, 63, 64, run.block_elements() - 1};
  for (const kernels::KernelSet* kernels :
       {&kernels::reference_kernels(), &kernels::cpu_kernels()}) {
    BufferPool buffers;
    PartWriter writer(buffers, *kernels, run, 0, run.block_elements(), 1);
    std::memset(writer.places(), 0, run.block_elements() / 8);
    for (const std::size_t element : elements)
      writer.places()[element / 8] |= std::byte{1} << (element % 8);
    writer.end(0, elements.size(), true);
    EXPECT_EQ(indices_of(*kernels, writer.finish(), run),
              std::vector<std::uint64_t>(elements.begin(), elements.end()));
  }
}

// Supports travel without values: there is nothing to copy (seen by UndefinedBehaviorSanitizer).
TEST(EntryPart, EntriesMayHaveNoValues) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  const BlockRun run{2, 3, 12};
  const std::vector<std::uint64_t> indices{run.first_index(), run.first_index() + 5000,
                                           run.end_index() - 1};
  BufferPool buffers;
  EXPECT_EQ(indices_of(kernels, write_part(buffers, kernels, run, indices, nullptr, 0), run),
            indices);
}

// A bitmap of one entry: whoever sums takes room for positions then, and marks need more.
TEST(EntryPart, ABitmapOfFewEntriesIsRefused) {
  const kernels::KernelSet& kernels = kernels::cpu_kernels();
  const BlockRun run{0, 1, 12};
  BufferPool buffers;
  std::vector<std::uint64_t> indices(run.max_positions() + 1);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  const Buffer part = write_part(buffers, kernels, run, indices, nullptr, 0);
  std::vector<std::byte> bytes(part.bytes().begin(), part.bytes().end());
  ASSERT_TRUE(PartView::read(kernels, bytes, run, 0).has_value());
  // One mark of all, and one entry less in the part's head and in the block's.
  const std::uint64_t entries = indices.size() - 1;
  std::memcpy(bytes.data() + 16, &entries, sizeof entries);
  const BlockHead head = BlockHead::of(0, entries, true);
  std::memcpy(bytes.data() + bytes.size() - sizeof head, &head, sizeof head);
  bytes[kPartHeadBytes] &= std::byte{0xfe};
  EXPECT_FALSE(PartView::read(kernels, bytes, run, 0).has_value());
}

}  // namespace
}  // namespace sparcl::sparse
