#include "src/sparse/selection/support.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace sparcl::sparse {
namespace {

const kernels::ElementKernels& of_width(const kernels::KernelSet& kernels, std::size_t width) {
  return kernels.elements[static_cast<std::size_t>(std::countr_zero(width))];
}

}  // namespace

void Support::append(std::uint64_t base, const std::uint16_t* positions, std::size_t count) {
  if (count == 0) return;
  if (blocks_.empty() || blocks_.back().base != base)
    blocks_.push_back({base, positions_.size(), 0});
  blocks_.back().count += count;
  positions_.insert(positions_.end(), positions, positions + count);
}

bool Support::unite(std::span<const std::span<const std::byte>> parts, const BlockRun& run,
                    std::uint64_t count) {
  std::vector<PartView> views;
  std::uint64_t entries = 0;
  for (const std::span<const std::byte> part : parts) {
    const std::optional<PartView> view = PartView::read(*kernels_, part, run, 0);
    if (!view) return false;
    views.push_back(*view);
    entries += view->entries();
  }
  positions_.reserve(std::min<std::uint64_t>(entries, count));
  std::vector<std::uint64_t> bits(kSupportFrame / 64 + kernels::kBitSlackBytes / 8);
  std::vector<std::uint16_t> scratch(kSupportFrame + kernels::kEntrySlack);
  for (;;) {
    std::uint64_t block = UINT64_MAX;
    for (const PartView& view : views)
      block = view.at_end() ? block : std::min(block, view.block());
    if (block == UINT64_MAX) return true;
    std::fill(bits.begin(), bits.end(), 0);
    for (PartView& view : views) {
      if (view.at_end() || view.block() != block) continue;
      const std::uint16_t* const positions = view.positions(*kernels_, scratch.data());
      for (std::size_t i = 0; i < view.block_entries(); ++i)
        bits[positions[i] / 64] |= std::uint64_t{1} << (positions[i] % 64);
      view.next();
    }
    const std::size_t found =
        kernels_->lists.find_marks(reinterpret_cast<const std::byte*>(bits.data()), 0,
                                   kSupportFrame, kSupportFrame, scratch.data());
    if (run.base_of(block) + scratch[found - 1] >= count) return false;
    append(run.base_of(block), scratch.data(), found);
  }
}

template <class AfterBlock>
void Support::visit(const std::byte* array, std::size_t width, std::byte* values,
                    const AfterBlock& after_block) const {
  kernels::GatherKernel* const gather_block = of_width(*kernels_, width).gather;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    kernels::Upcoming next;
    if (b + 1 < blocks_.size()) {
      const Block& after = blocks_[b + 1];
      next = {array + after.base * width, positions(after), after.count, 0};
    }
    gather_block(array + block.base * width, positions(block), block.count, 0,
                 values + block.first * width, next);
    after_block(block);
  }
}

void Support::gather(const std::byte* array, std::size_t width, std::byte* values) const {
  visit(array, width, values, [](const Block&) {});
}

// While a block is in a cache.
void Support::take(std::byte* array, std::size_t width, std::byte* values) const {
  kernels::ScatterKernel* const scatter = of_width(*kernels_, width).scatter;
  const std::vector<std::byte> zeros(kSupportFrame * width);
  visit(array, width, values, [&](const Block& block) {
    scatter(array + block.base * width, positions(block), block.count, 0, zeros.data(), {});
  });
}

void Support::put(const std::byte* values, std::size_t width, std::byte* array) const {
  kernels::ScatterKernel* const scatter = of_width(*kernels_, width).scatter;
  for (const Block& block : blocks_)
    scatter(array + block.base * width, positions(block), block.count, 0,
            values + block.first * width, {});
}

// Each frame is made in a cache and then written past it: the array is written once, and never
// read.
void write_supported(const kernels::KernelSet& kernels, const Support& support,
                     const std::byte* values, std::size_t width, std::uint64_t count,
                     std::byte* array) {
  kernels::ScatterKernel* const scatter = of_width(kernels, width).scatter;
  std::vector<std::byte> frame(kSupportFrame * width);
  const std::vector<std::byte> zeros(kSupportFrame * width);
  auto block = support.blocks().begin();
  for (std::uint64_t base = 0; base < count; base += kSupportFrame) {
    const std::size_t elements =
        static_cast<std::size_t>(std::min<std::uint64_t>(kSupportFrame, count - base));
    const bool has_some = block != support.blocks().end() && block->base == base;
    if (has_some)
      scatter(frame.data(), support.positions(*block), block->count, 0,
              values + block->first * width, {});
    kernels.entries.copy_bytes(frame.data(), elements * width, kernels::Output::kStreamed,
                               array + base * width);
    if (has_some) {
      scatter(frame.data(), support.positions(*block), block->count, 0, zeros.data(), {});
      ++block;
    }
  }
}

}  // namespace sparcl::sparse
