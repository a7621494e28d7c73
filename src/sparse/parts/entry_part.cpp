#include "src/sparse/parts/entry_part.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kAlignment = 8;
constexpr std::size_t kMaxGap = 32;  // at most 1 / 32 of a part may be a gap
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_better_as_bitmap(const BlockRun& run, std::size_t entries) {
  return entries > run.max_positions();
}

std::size_t place_bytes(const BlockRun& run, const BlockHead& head) {
  return head.is_bitmap() ? run.block_elements() / 8 : head.entries() * sizeof(std::uint16_t);
}

std::size_t heads_bytes(std::size_t blocks) { return blocks * sizeof(BlockHead); }

// Writes everything except positions and values, which are in place already. Returns the part.
Buffer close_part(const Buffer& part, std::span<const BlockHead> heads, std::size_t entries,
                  std::size_t values_at, std::size_t value_bytes) {
  const std::size_t values_end = values_at + entries * value_bytes;
  const Buffer whole = part.slice(0, values_end + heads_bytes(heads.size()));
  std::byte* const at = whole.data();
  store_le<std::uint64_t>(at, whole.size());
  store_le<std::uint64_t>(at + 8, heads.size());
  store_le<std::uint64_t>(at + 16, entries);
  store_le<std::uint64_t>(at + 24, values_at);
  if (!heads.empty()) std::memcpy(at + values_end, heads.data(), heads_bytes(heads.size()));
  return whole;
}

// The positions of a bitmap's set bits. positions: room for them and kEntrySlack.
void positions_of(const kernels::KernelSet& kernels, const std::byte* marks, const BlockRun& run,
                  std::uint64_t block, std::size_t entries, std::uint16_t* positions) {
  kernels.lists.find_marks(marks, 0, run.block_elements(), entries, positions);
  const auto first = static_cast<std::uint16_t>(run.first_position(block));
  if (first != 0)
    std::for_each(positions, positions + entries,
                  [first](std::uint16_t& position) { position += first; });
}

void set_bits(const std::uint16_t* positions, std::size_t count, std::uint32_t first,
              std::byte* bitmap, std::size_t bytes) {
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

std::uint64_t max_part_bytes(const BlockRun& run, std::uint64_t entries, std::size_t value_bytes) {
  const std::uint64_t elements = std::min(run.blocks, kMaxSparseCount >> run.block_log2)
                                 << run.block_log2;
  const std::uint64_t max_entries = std::min(entries, elements);
  const std::uint64_t bytes = max_entries * (sizeof(std::uint16_t) + value_bytes) +
                              std::min(max_entries, run.blocks) * sizeof(BlockHead);
  return kPartHeadBytes + bytes + bytes / kMaxGap +
         2 * kernels::kEntrySlack * sizeof(std::uint16_t);
}

Buffer write_part(BufferSource& buffers, const kernels::KernelSet& kernels, const BlockRun& run,
                  std::span<const std::uint64_t> indices, const std::byte* values,
                  std::size_t value_bytes) {
  std::vector<BlockHead> heads;
  for (std::size_t at = 0; at < indices.size();) {
    const std::uint64_t block = (indices[at] >> run.block_log2) - run.first;
    const std::size_t own =
        count_below(indices.subspan(at), (run.first + block + 1) << run.block_log2);
    heads.push_back(BlockHead::of(block, own, is_better_as_bitmap(run, own)));
    at += own;
  }
  std::size_t places = 0;
  for (const BlockHead& head : heads) places += place_bytes(run, head);
  const std::size_t values_at = aligned(kPartHeadBytes + places);
  const Buffer part =
      buffers.take(values_at + indices.size() * value_bytes + heads_bytes(heads.size()));
  std::byte* to = part.data() + kPartHeadBytes;
  std::span<const std::uint64_t> rest = indices;
  for (std::size_t i = 0; i < heads.size();) {
    if (heads[i].is_bitmap()) {
      kernels.entries.mark_indices(rest.data(), heads[i].entries(), run.block_elements(), to);
      rest = rest.subspan(heads[i].entries());
      to += place_bytes(run, heads[i++]);
      continue;
    }
    std::size_t entries = 0;  // of consecutive blocks
    for (; i < heads.size() && !heads[i].is_bitmap(); ++i) entries += heads[i].entries();
    kernels.entries.lower_indices(rest.data(), entries, reinterpret_cast<std::uint16_t*>(to));
    rest = rest.subspan(entries);
    to += entries * sizeof(std::uint16_t);
  }
  std::memset(to, 0, static_cast<std::size_t>(part.data() + values_at - to));
  const std::size_t values_bytes = indices.size() * value_bytes;
  if (values_bytes > 0)
    std::memcpy(part.data() + values_at, values,
                values_bytes);  // without entries, values may be nullptr
  return close_part(part, heads, indices.size(), values_at, value_bytes);
}

PartWriter::PartWriter(BufferSource& buffers, const kernels::KernelSet& kernels,
                       const BlockRun& run, std::size_t value_bytes, std::size_t max_entries,
                       std::size_t max_blocks)
    : kernels_(kernels),
      run_(run),
      value_bytes_(value_bytes),
      values_at_(
          aligned(kPartHeadBytes + (max_entries + kernels::kEntrySlack) * sizeof(std::uint16_t))) {
  const std::size_t blocks = std::min(max_blocks, max_entries);
  part_ = buffers.take(values_at_ + max_entries * value_bytes + heads_bytes(blocks));
}

void PartWriter::end(std::uint64_t block, std::size_t entries, bool is_marked) {
  if (entries == 0) return;
  const BlockHead head = BlockHead::of(block, entries, is_better_as_bitmap(run_, entries));
  if (head.is_bitmap() && !is_marked) {
    const std::vector<std::byte> list(places(), places() + entries * sizeof(std::uint16_t));
    set_bits(reinterpret_cast<const std::uint16_t*>(list.data()), entries,
             run_.first_position(block), places(), place_bytes(run_, head));
  }
  if (is_marked && !head.is_bitmap()) {  // many ranks had the same entries
    const std::size_t bytes = run_.block_elements() / 8;
    std::vector<std::byte> marks(bytes + kernels::kBitSlackBytes);
    std::memcpy(marks.data(), places(), bytes);
    positions_of(kernels_, marks.data(), run_, block, entries,
                 reinterpret_cast<std::uint16_t*>(places()));
  }
  heads_.push_back(head);
  places_end_ += place_bytes(run_, head);
  entries_ += entries;
}

// Moves values next to the positions only if many ranks had the same entries and the gap is large
// enough.
Buffer PartWriter::finish() {
  const std::size_t closest = aligned(places_end_);
  const std::size_t rest = places_end_ + entries_ * value_bytes_ + heads_bytes(heads_.size());
  if (values_at_ - closest > rest / kMaxGap + kernels::kEntrySlack * sizeof(std::uint16_t)) {
    std::memmove(part_.data() + closest, part_.data() + values_at_, entries_ * value_bytes_);
    values_at_ = closest;
  }
  std::memset(part_.data() + places_end_, 0, values_at_ - places_end_);
  return close_part(part_, heads_, entries_, values_at_, value_bytes_);
}

Buffer with_room(BufferSource& buffers, std::span<const std::byte> part, std::size_t value_bytes,
                 std::size_t new_bytes, std::byte*& values) {
  const auto blocks = load_le<std::uint64_t>(part.data() + 8),
             entries = load_le<std::uint64_t>(part.data() + 16),
             values_at = load_le<std::uint64_t>(part.data() + 24);
  Buffer made = buffers.take(values_at + entries * new_bytes + heads_bytes(blocks));
  values = made.data() + values_at;
  std::memcpy(made.data(), part.data(), values_at);
  store_le<std::uint64_t>(made.data(), made.size());
  if (blocks > 0)
    std::memcpy(values + entries * new_bytes, part.data() + values_at + entries * value_bytes,
                heads_bytes(blocks));
  return made;
}

std::optional<PartView> PartView::read(const kernels::KernelSet& kernels,
                                       std::span<const std::byte> bytes, const BlockRun& run,
                                       std::size_t value_bytes) {
  if (bytes.size() < kPartHeadBytes || load_le<std::uint64_t>(bytes.data()) != bytes.size())
    return std::nullopt;
  PartView view;
  view.run_ = run;
  view.value_bytes_ = value_bytes;
  view.blocks_ = load_le<std::uint64_t>(bytes.data() + 8);
  view.entries_ = load_le<std::uint64_t>(bytes.data() + 16);
  const auto values_at = load_le<std::uint64_t>(bytes.data() + 24);
  if (values_at < kPartHeadBytes || values_at > bytes.size()) return std::nullopt;
  const std::uint64_t behind = bytes.size() - values_at;
  if (view.blocks_ > behind / sizeof(BlockHead)) return std::nullopt;
  if (value_bytes > 0 && view.entries_ > behind / value_bytes) return std::nullopt;
  if (view.entries_ * value_bytes + heads_bytes(view.blocks_) != behind) return std::nullopt;
  view.places_ = bytes.data() + kPartHeadBytes;
  view.values_ = bytes.data() + values_at;
  view.heads_ = view.values_ + view.entries_ * value_bytes;
  std::uint64_t entries = 0, places = 0, next_block = 0;
  for (view.at_ = 0; view.at_ < view.blocks_; ++view.at_) {
    const BlockHead head = view.head();
    if (head.block() < next_block || head.block() >= run.blocks ||
        head.entries() > run.block_elements())
      return std::nullopt;
    if (head.is_bitmap() != is_better_as_bitmap(run, head.entries()))
      return std::nullopt;  // limits the memory that sums take
    next_block = head.block() + 1;
    entries += head.entries();
    const std::size_t own_bytes = place_bytes(run, head);
    if (places + own_bytes > values_at - kPartHeadBytes) return std::nullopt;
    if (head.is_bitmap() &&
        kernels.entries.count_marks(view.places_ + places, own_bytes) != head.entries())
      return std::nullopt;
    places += own_bytes;
  }
  view.at_ = 0;
  if (entries != view.entries_) return std::nullopt;
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

const std::uint16_t* PartView::positions(const kernels::KernelSet& kernels,
                                         std::uint16_t* scratch) const {
  const BlockHead head = this->head();
  if (!head.is_bitmap()) return reinterpret_cast<const std::uint16_t*>(places());
  const std::byte* marks = places();
  const std::byte* const end = heads_ + heads_bytes(blocks_);
  const std::size_t bytes = place_bytes(run_, head);
  std::vector<std::byte>
      copy;  // if there are no values, a kernel would read past the end of the part
  if (static_cast<std::size_t>(end - marks) < bytes + kernels::kBitSlackBytes) {
    copy.resize(bytes + kernels::kBitSlackBytes);
    std::memcpy(copy.data(), marks, bytes);
    marks = copy.data();
  }
  positions_of(kernels, marks, run_, head.block(), head.entries(), scratch);
  return scratch;
}

}  // namespace sparcl::sparse
