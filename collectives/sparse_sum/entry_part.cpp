#include "collectives/sparse_sum/entry_part.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool is_shorter_as_bitmap(const BlockRun& run, std::size_t entries) { return entries > run.block_elements() / 16; }

std::size_t place_bytes(const BlockRun& run, const BlockHead& head) {
  return head.is_bitmap() ? run.block_elements() / 8 : head.entries() * sizeof(std::uint16_t);
}

// Heads and places, in front of `values`, of which the caller writes `entries`.
struct Frame {
  Buffer part;
  std::byte* places;
  std::byte* values;
};

Frame make_frame(BufferPool& buffers, const BlockRun& run, std::span<const BlockHead> heads, std::size_t entries,
                 std::size_t value_bytes) {
  std::size_t places = 0;
  for (const BlockHead& head : heads) places += place_bytes(run, head);
  const std::size_t before = kPartHeadBytes + heads.size() * sizeof(BlockHead);
  const std::size_t front = aligned(before + places);
  Frame frame{buffers.take(front + entries * value_bytes), nullptr, nullptr};
  std::byte* const at = frame.part.data();
  store_le<std::uint64_t>(at, frame.part.size());
  store_le<std::uint64_t>(at + 8, heads.size());
  store_le<std::uint64_t>(at + 16, entries);
  if (!heads.empty()) std::memcpy(at + kPartHeadBytes, heads.data(), heads.size() * sizeof(BlockHead));
  std::memset(at + before + places, 0, front - before - places);
  frame.places = at + before;
  frame.values = at + front;
  return frame;
}

void set_bits(const std::uint16_t* positions, std::size_t count, std::uint32_t first, std::byte* bitmap, std::size_t bytes) {
  std::memset(bitmap, 0, bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bit = positions[i] - first;
    bitmap[bit / 8] |= std::byte{1} << (bit % 8);
  }
}

}  // namespace

std::size_t count_below(std::span<const std::uint64_t> indices, std::uint64_t end) {
  std::size_t step = 16;
  while (step < indices.size() && indices[step - 1] < end) step *= 2;
  const auto last = indices.begin() + static_cast<std::ptrdiff_t>(std::min(step, indices.size()));
  const auto first = indices.begin() + static_cast<std::ptrdiff_t>(step > 16 ? step / 2 : 0);
  return static_cast<std::size_t>(std::lower_bound(first, last, end) - indices.begin());
}

std::uint64_t part_bytes(const std::byte* head) { return load_le<std::uint64_t>(head); }

std::uint64_t most_part_bytes(const BlockRun& run, std::uint64_t entries, std::size_t value_bytes) {
  const std::uint64_t elements = std::min(run.blocks, kMostSparseCount >> run.block_log2) << run.block_log2;
  const std::uint64_t most_entries = std::min(entries, elements);
  const std::uint64_t blocks = std::min(most_entries, run.blocks);
  return aligned(kPartHeadBytes + blocks * sizeof(BlockHead) + most_entries * sizeof(std::uint16_t)) + most_entries * value_bytes;
}

Buffer write_part(BufferPool& buffers, const kernels::KernelSet& kernels, const BlockRun& run,
                  std::span<const std::uint64_t> indices, const std::byte* values, std::size_t value_bytes) {
  std::vector<BlockHead> heads;
  for (std::size_t at = 0; at < indices.size();) {
    const std::uint64_t block = (indices[at] >> run.block_log2) - run.first;
    const std::size_t own = count_below(indices.subspan(at), (run.first + block + 1) << run.block_log2);
    heads.push_back(BlockHead::of(block, own, false));
    at += own;
  }
  const Frame frame = make_frame(buffers, run, heads, indices.size(), value_bytes);
  kernels.entries.lower_indices(indices.data(), indices.size(), reinterpret_cast<std::uint16_t*>(frame.places));
  if (!indices.empty()) std::memcpy(frame.values, values, indices.size() * value_bytes);
  return frame.part;
}

PartWriter::Room PartWriter::begin(std::size_t most_entries) {
  const std::size_t needed = entries_ + most_entries + kernels::kEntrySlack;
  if (positions_.size() < needed) {
    positions_.resize(std::max(needed, 2 * positions_.size()));
    values_.resize(positions_.size() * value_bytes_);
  }
  return {positions_.data() + entries_, values_.data() + entries_ * value_bytes_};
}

void PartWriter::end(std::uint64_t block, std::size_t entries) {
  if (entries == 0) return;
  heads_.push_back(BlockHead::of(block, entries, is_shorter_as_bitmap(run_, entries)));
  entries_ += entries;
}

Buffer PartWriter::finish(BufferPool& buffers) {
  const Frame frame = make_frame(buffers, run_, heads_, entries_, value_bytes_);
  std::byte* places = frame.places;
  const std::uint16_t* positions = positions_.data();
  for (const BlockHead& head : heads_) {
    const std::size_t bytes = place_bytes(run_, head);
    if (head.is_bitmap()) {
      set_bits(positions, head.entries(), run_.first_position(head.block()), places, bytes);
    } else {
      std::memcpy(places, positions, bytes);
    }
    positions += head.entries();
    places += bytes;
  }
  if (entries_ > 0) std::memcpy(frame.values, values_.data(), entries_ * value_bytes_);
  return frame.part;
}

std::optional<PartView> PartView::read(std::span<const std::byte> bytes, const BlockRun& run, std::size_t value_bytes) {
  if (bytes.size() < kPartHeadBytes || load_le<std::uint64_t>(bytes.data()) != bytes.size()) return std::nullopt;
  PartView view;
  view.run_ = run;
  view.value_bytes_ = value_bytes;
  view.blocks_ = load_le<std::uint64_t>(bytes.data() + 8);
  view.entries_ = load_le<std::uint64_t>(bytes.data() + 16);
  if (view.blocks_ > (bytes.size() - kPartHeadBytes) / sizeof(BlockHead)) return std::nullopt;
  view.heads_ = bytes.data() + kPartHeadBytes;
  view.places_ = view.heads_ + view.blocks_ * sizeof(BlockHead);
  std::uint64_t entries = 0, places = 0, next_block = 0;
  for (view.at_ = 0; view.at_ < view.blocks_; ++view.at_) {
    const BlockHead head = view.head();
    if (head.block() < next_block || head.block() >= run.blocks || head.entries() > run.block_elements()) return std::nullopt;
    if (head.is_bitmap() && !is_shorter_as_bitmap(run, head.entries())) return std::nullopt;
    next_block = head.block() + 1;
    entries += head.entries();
    places += place_bytes(run, head);
  }
  view.at_ = 0;
  const std::uint64_t front = aligned(kPartHeadBytes + view.blocks_ * sizeof(BlockHead) + places);
  if (entries != view.entries_ || front > bytes.size() || entries * value_bytes != bytes.size() - front) return std::nullopt;
  view.values_ = bytes.data() + front;
  return view;
}

BlockHead PartView::head() const {
  BlockHead head;
  std::memcpy(&head, heads_ + at_ * sizeof head, sizeof head);
  return head;
}

void PartView::next() {
  const BlockHead head = this->head();
  entries_before_ += head.entries();
  place_bytes_before_ += place_bytes(run_, head);
  ++at_;
}

// A bitmap that has fewer bits than its head says leaves the rest at the block's first element: the caller's sums stay in bounds.
const std::uint16_t* PartView::positions(const kernels::KernelSet& kernels, std::uint16_t* scratch) const {
  const std::byte* const at = places_ + place_bytes_before_;
  const BlockHead head = this->head();
  if (!head.is_bitmap()) return reinterpret_cast<const std::uint16_t*>(at);
  const std::size_t found = kernels.lists.find_marks(at, 0, run_.block_elements(), head.entries(), scratch);
  std::fill(scratch + found, scratch + head.entries(), std::uint16_t{0});
  const auto first = static_cast<std::uint16_t>(run_.first_position(head.block()));
  if (first != 0) std::for_each(scratch, scratch + head.entries(), [first](std::uint16_t& position) { position += first; });
  return scratch;
}

}  // namespace sparcl::collectives
