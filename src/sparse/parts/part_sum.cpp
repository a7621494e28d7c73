#include "src/sparse/parts/part_sum.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/float_environment.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kMaxBlockEntries = 65536;

std::byte* aligned(std::byte* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (kernels::kAccumulatorAlignment - address % kernels::kAccumulatorAlignment) %
                  kernels::kAccumulatorAlignment;
}

}  // namespace

PartSum::PartSum(BufferSource& buffers, const kernels::KernelSet& kernels, const SumKind& kind,
                 std::size_t lists, PartValues in, PartValues out, std::uint32_t divisor)
    : buffers_(buffers),
      kernels_(kernels),
      reduce_(kernels.reduce_of(kind.datatype)),
      out_(out),
      in_bytes_(part_value_bytes(kernels, kind.datatype, in)),
      out_bytes_(part_value_bytes(kernels, kind.datatype, out)),
      divisor_(divisor),
      widens_(in == PartValues::kElements &&
              !kernels.sparse_sum_of(kind.datatype, kind.reduction.op).takes_values),
      block_sum_(kernels, kind.datatype, kind.reduction.op, kind.determinism, lists),
      entries_(lists),
      accumulators_(lists) {
  // Fresh pages from the system would cost more than a small call.
  sums_ = buffers.take((kMaxBlockEntries + kernels::kEntrySlack) * reduce_.accumulator_bytes +
                       kernels::kAccumulatorAlignment);
  sums_begin_ = aligned(sums_.data());
}

std::optional<Buffer> PartSum::sum(std::span<const std::span<const std::byte>> parts,
                                   const BlockRun& run) {
  if (!view(parts, run)) return std::nullopt;
  return sum_piece(run, run);
}

std::optional<std::vector<Buffer>> PartSum::sum_pieces(
    std::span<const std::span<const std::byte>> parts, const BlockRun& run,
    std::span<const BlockRun> pieces) {
  if (!view(parts, run)) return std::nullopt;
  std::vector<Buffer> sums;
  for (const BlockRun& piece : pieces) sums.push_back(sum_piece(run, piece));
  return sums;
}

bool PartSum::view(std::span<const std::span<const std::byte>> parts, const BlockRun& run) {
  views_.clear();
  for (const std::span<const std::byte> part : parts) {
    const std::optional<PartView> view = PartView::read(kernels_, part, run, in_bytes_);
    if (!view) return false;
    views_.push_back(*view);
  }
  return true;
}

// Sums the rest of the views up to the piece's end.
Buffer PartSum::sum_piece(const BlockRun& run, const BlockRun& piece) {
  const FloatEnvironment ieee;
  const std::uint64_t begin = piece.first - run.first, end = begin + piece.blocks;
  std::size_t entries = 0, blocks = 0;
  for (PartView rest : views_) {
    for (; !rest.at_end() && rest.block() < end; rest.next(), ++blocks)
      entries += rest.block_entries();
  }
  PartWriter writer(buffers_, kernels_, piece, out_bytes_, entries, blocks);
  for (;;) {
    const std::uint64_t block = next_block();
    if (block >= end) return writer.finish();
    take_block(block);
    const auto [size, is_marked] =
        block_sum_.sum(entries_, run, block, writer.places(), sums_begin_);
    if (out_ == PartValues::kAccumulators) {
      std::memcpy(writer.values(), sums_begin_, size * out_bytes_);
    } else {
      if (divisor_ > 1) reduce_.divide(sums_begin_, size, divisor_);
      reduce_.narrow(sums_begin_, size, writer.values());
    }
    writer.end(block - begin, size, is_marked);
  }
}

std::uint64_t PartSum::next_block() const {
  std::uint64_t block = UINT64_MAX;
  for (const PartView& view : views_) block = view.at_end() ? block : std::min(block, view.block());
  return block;
}

// Each list's entries in the block, or none.
void PartSum::take_block(std::uint64_t block) {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    PartView& view = views_[i];
    entries_[i] = {};
    if (view.at_end() || view.block() != block) continue;
    const std::size_t count = view.block_entries();
    const std::byte* const values = widened(i, view.block_values(), count);
    const std::byte* const places = view.places();
    entries_[i] =
        view.is_bitmap()
            ? kernels::EntryList{nullptr, values, count, places}
            : kernels::EntryList{reinterpret_cast<const std::uint16_t*>(places), values, count};
    view.next();
  }
}

const std::byte* PartSum::widened(std::size_t list, const std::byte* values, std::size_t count) {
  if (!widens_) return values;
  accumulators_[list].resize(count * reduce_.accumulator_bytes + kernels::kAccumulatorAlignment);
  std::byte* const into = aligned(accumulators_[list].data());
  reduce_.widen(values, count, into);
  return into;
}

}  // namespace sparcl::sparse
