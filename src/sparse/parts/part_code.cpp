#include "src/sparse/parts/part_code.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/bytes.hpp"
#include "src/sparse/parts/scaled_groups.hpp"
#include "src/sparse/parts/scaled_pieces.hpp"

namespace sparcl::sparse {
namespace {

constexpr std::size_t kListHeadBytes = 14;
constexpr std::size_t kMaxListed = 16384;
// Marks stay below 65,536: gaps are divided by 65,536 at most.
constexpr std::uint64_t kMaxSpan = std::uint64_t{1} << 31;
constexpr std::size_t kMinPartBytes = 256;  // shorter parts are not worth it

bool are_listable(const kernels::KernelSet& kernels, std::span<const std::uint64_t> indices,
                  const BlockRun& run) {
  return kernels.entries.ascend(indices.data(), indices.size()) &&
         (indices.empty() || indices.back() < run.end_index() - run.first_index());
}

bool append_values(const PartShape& shape, const PartView& view, std::vector<std::byte>& out) {
  if (!shape.is_scaled() || shape.value_bytes != sizeof(float)) return false;
  if (shape.form == ValueForm::kScaled8) return append_scaled(view.values(), view.entries(), out);
  const auto started = static_cast<std::size_t>(shape.values_before % kScaledGroup);
  return append_groups(shape.form, view.values(), view.entries(), kScaledGroup - started, out);
}

bool read_values(ValueForm form, std::span<const std::byte> from, std::uint64_t entries,
                 std::vector<std::byte>& values) {
  constexpr std::uint64_t kMaxPerByte = 4;
  if (entries > kMaxPerByte * from.size()) return false;
  values.resize(entries * sizeof(float));
  return form == ValueForm::kScaled8 ? read_scaled(from, entries, values.data())
                                     : read_groups(form, from, entries, values.data());
}

}  // namespace

void PartCoder::list_indices(PartView part, const BlockRun& run) {
  indices_.resize(part.entries() + kernels::kEntrySlack);
  std::uint64_t* to = indices_.data();
  for (; !part.at_end(); part.next()) {
    if (part.is_bitmap()) scratch_.resize(run.block_elements() + kernels::kEntrySlack);
    const std::uint16_t* const positions = part.positions(kernels_, scratch_.data());
    kernels_.entries.raise_positions(positions, part.block_entries(),
                                     run.base_of(part.block()) - run.first_index(),
                                     kernels::Output::kCached, to);
    to += part.block_entries();
  }
  indices_.resize(part.entries());
}

void PartCoder::write_lists() {
  coded_.resize(kPartHeadBytes);
  for (std::size_t at = 0; at < indices_.size();) {
    const std::uint64_t first = indices_[at];
    const std::size_t most = std::min(kMaxListed, indices_.size() - at);
    const std::size_t own = count_below(std::span(indices_).subspan(at, most), first + kMaxSpan);
    const std::uint64_t span = indices_[at + own - 1] - first;
    positions_.resize(own - 1);
    for (std::size_t i = 0; i + 1 < own; ++i)
      positions_[i] = static_cast<std::uint32_t>(indices_[at + 1 + i] - first - 1);
    list_.prepare(kernels_.lists, positions_, span);
    const std::size_t to = coded_.size();
    coded_.resize(to + kListHeadBytes + static_cast<std::size_t>((list_.bits() + 7) / 8));
    store_le<std::uint64_t>(coded_.data() + to, first);
    store_le<std::uint32_t>(coded_.data() + to + 8, static_cast<std::uint32_t>(span));
    store_le<std::uint16_t>(coded_.data() + to + 12, static_cast<std::uint16_t>(own - 1));
    kernels::BitWriter bits{coded_.data() + to + kListHeadBytes};
    list_.write_planes(kernels_.lists, bits);
    if (own > 1) list_.write_unary(kernels_.lists, bits);
    bits.finish();
    at += own;
  }
  coded_.resize(coded_.size() + kernels::kBitSlackBytes);
}

std::optional<Buffer> PartCoder::code(BufferSource& buffers, std::span<const std::byte> part,
                                      const PartShape& shape) {
  if (part.size() < kMinPartBytes) return std::nullopt;
  const std::optional<PartView> view = PartView::read(kernels_, part, shape.run, shape.value_bytes);
  if (!view) return std::nullopt;
  list_indices(*view, shape.run);
  if (!are_listable(kernels_, indices_, shape.run))
    return std::nullopt;  // sums of untrusted parts may have them in any order
  write_lists();
  const std::size_t lists_bytes = coded_.size() - kPartHeadBytes;
  const bool is_scaled = append_values(shape, *view, coded_);
  const std::size_t rest = is_scaled ? 0 : view->entries() * shape.value_bytes,
                    bytes = coded_.size() + rest;
  if (bytes >= part.size()) return std::nullopt;
  store_le<std::uint64_t>(coded_.data(), kCodedPart | bytes);
  store_le<std::uint64_t>(coded_.data() + 8, view->entries());
  store_le<std::uint64_t>(coded_.data() + 16, lists_bytes);
  store_le<std::uint64_t>(coded_.data() + 24, static_cast<std::uint64_t>(
                                                  is_scaled ? shape.form : ValueForm::kUnmodified));
  const Buffer message = buffers.take(bytes);
  std::memcpy(message.data(), coded_.data(), coded_.size());
  if (rest > 0) std::memcpy(message.data() + coded_.size(), view->values(), rest);
  return message;
}

// lists: including the zeros after them.
bool PartCoder::read_lists(std::span<const std::byte> lists, std::uint64_t entries,
                           const BlockRun& run) {
  const std::uint64_t run_elements = run.end_index() - run.first_index();
  indices_.clear();
  indices_.reserve(entries);
  std::uint64_t next = 0;  // no index is below it
  while (indices_.size() < entries) {
    if (lists.size() < kListHeadBytes + kernels::kBitSlackBytes) return false;
    const auto first = load_le<std::uint64_t>(lists.data());
    const std::uint64_t span = load_le<std::uint32_t>(lists.data() + 8);
    const std::size_t listed = load_le<std::uint16_t>(lists.data() + 12);
    if (listed >= kMaxListed || listed + 1 > entries - indices_.size()) return false;
    if (first < next || first >= run_elements || span >= run_elements - first || span >= kMaxSpan ||
        span < listed)
      return false;
    lists = lists.subspan(kListHeadBytes);
    codec::BitCursor bits{lists.data(), 0,
                          8 * std::uint64_t{lists.size() - kernels::kBitSlackBytes}};
    positions_.resize(listed + kernels::kPositionSlack);
    if (!reader_.read_planes(kernels_.lists, bits, span, listed)) return false;
    if (!reader_.read_unary(kernels_.lists, bits, positions_.data())) return false;
    indices_.push_back(run.first_index() + first);
    for (std::size_t i = 0; i < listed; ++i)
      indices_.push_back(run.first_index() + first + 1 + positions_[i]);
    next = first + span + 1;
    lists = lists.subspan(static_cast<std::size_t>((bits.at + 7) / 8));
  }
  return lists.size() == kernels::kBitSlackBytes;
}

std::optional<Buffer> PartCoder::expand(BufferSource& buffers, std::span<const std::byte> message,
                                        const PartShape& shape, std::uint64_t max_bytes) {
  if (message.size() < kPartHeadBytes ||
      load_le<std::uint64_t>(message.data()) != (kCodedPart | message.size()))
    return std::nullopt;
  const auto entries = load_le<std::uint64_t>(message.data() + 8),
             lists_bytes = load_le<std::uint64_t>(message.data() + 16);
  const auto form = load_le<std::uint64_t>(message.data() + 24);
  const std::span<const std::byte> behind = message.subspan(kPartHeadBytes);
  if (lists_bytes > behind.size() || entries > 8 * lists_bytes)
    return std::nullopt;  // each takes a bit at least
  if (shape.value_bytes > 0 && entries > max_bytes / shape.value_bytes) return std::nullopt;
  const std::span<const std::byte> values = behind.subspan(lists_bytes);
  const bool is_scaled = form != 0;
  if (is_scaled &&
      (form != static_cast<std::uint64_t>(shape.form) || shape.value_bytes != sizeof(float)))
    return std::nullopt;
  if (!is_scaled && values.size() != entries * shape.value_bytes) return std::nullopt;
  if (!read_lists(behind.first(lists_bytes), entries, shape.run)) return std::nullopt;
  const std::byte* plain = values.data();
  if (is_scaled) {
    if (!read_values(shape.form, values, entries, values_)) return std::nullopt;
    plain = values_.data();
  }
  Buffer part = write_part(buffers, kernels_, shape.run, indices_, plain, shape.value_bytes);
  if (part.size() > max_bytes) return std::nullopt;
  return part;
}

}  // namespace sparcl::sparse
