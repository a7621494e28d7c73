#include "src/device/device_decode_batch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/bytes.hpp"
#include "src/codec/superblock.hpp"
#include "src/device/array_hash.hpp"
#include "src/device/memory_layout.hpp"

namespace sparcl::device {
namespace {

constexpr std::uint64_t kStartsOfBatches =
    4;  // as many blocks are kept as this many batches have. Heuristic

static_assert(DeviceSpans::kGatheredBlocks >= codec::kSuperBlocks &&
              kernels::kSuperBlocks == codec::kSuperBlocks);

std::uint32_t device_mode(std::uint8_t mode) {
  return is_fresh(mode) ? kernels::kDenseBlock : mode;
}

}  // namespace

bool is_fresh(std::uint8_t mode) { return mode == codec::kFreshMode.id; }
bool lists_positions(std::uint8_t mode) { return device_mode(mode) != kernels::kDenseBlock; }
bool is_of_classes(std::uint8_t mode) { return mode == codec::kClassesMode.id; }

DeviceDecodeBatch::DeviceDecodeBatch(DeviceScratch& scratch, const codec::BlockMap& map,
                                     std::span<std::byte* const> arrays, void* stream,
                                     const BatchLimits& limits)
    : scratch_(scratch),
      kernels_(scratch.kernels().blocks),
      spans_(map),
      arrays_(arrays),
      read_arrays_(arrays.begin(), arrays.end()),
      stream_(stream) {
  const std::uint64_t all_blocks = map.block_count(), count = map.element_count();
  const std::size_t width = spans_.max_width();
  max_blocks_ = std::min(all_blocks, limits.blocks);
  max_changes_ = std::min(count, limits.changes);
  max_content_ = std::min(max_content(count, all_blocks), limits.content_bytes);
  max_kept_ = std::min(count, std::max(limits.kept_changes, limits.changes));
  max_starts_ = kStartsOfBatches * (max_blocks_ + 1);
  workspace_bytes_ = kernels_.decode_workspace_bytes(
      std::min(count, max_blocks_ * codec::kBlockElements), max_changes_);
  const auto has_classes = [](const codec::ArraySpec& array) {
    return codec::has_classes(array.datatype);
  };
  if (std::ranges::any_of(map.arrays(), has_classes)) {
    class_workspace_bytes_ = kernels_.classes.decode_workspace_bytes(
        std::min(count, max_blocks_ * codec::kBlockElements), max_changes_);
  }
  const std::uint64_t table_bytes = max_blocks_ * sizeof(kernels::BlockContent),
                      answer_bytes = answer_of(max_blocks_).bytes;
  MemoryLayout device, pinned;
  starts_at_ = device.place(max_starts_ * sizeof(std::uint64_t));
  positions_at_ = device.place(max_kept_ * sizeof(std::uint16_t));
  old_at_ = device.place(max_kept_ * width);
  new_at_ = device.place(max_kept_ * width);
  table_at_ = device.place(table_bytes);
  contents_at_ = device.place(kernels::aligned_content(max_content_));
  answer_at_ = device.place(answer_bytes);
  refused_at_ = device.place(sizeof(std::uint64_t));
  hash_at_ = device.place(kArrayHashBytes);
  workspace_at_ = device.place(workspace_bytes_);
  class_workspace_at_ = device.place(class_workspace_bytes_);
  gathered_at_ = device.place(spans_.gathered_bytes());
  device_bytes_ = device.size_bytes();
  pinned_table_at_ = pinned.place(table_bytes);
  pinned_contents_at_ = pinned.place(kernels::aligned_content(max_content_));
  pinned_answer_at_ = pinned.place(answer_bytes);
  pinned_refused_at_ = pinned.place(sizeof(std::uint64_t));
  pinned_hash_at_ = pinned.place(kArrayHashBytes);
  pinned_bytes_ = pinned.size_bytes();
}

Status DeviceDecodeBatch::reserve() {
  SPARCL_ASSIGN_OR_RETURN(const DeviceScratch::Memory memory,
                          scratch_.both(device_bytes_, pinned_bytes_, "decoding"));
  device_ = memory.device;
  pinned_ = memory.pinned;
  return Status();
}

std::uint32_t DeviceDecodeBatch::elements_of(const codec::BlockEntry& entry) const {
  return static_cast<std::uint32_t>(
      spans_.map().run_of(entry.index).elements(entry.index, entry.last));
}

std::uint64_t DeviceDecodeBatch::changes_of(const Staging& staging,
                                            const codec::BlockEntry& entry) const {
  const std::uint64_t elements = elements_of(entry);
  const std::size_t width = element_bytes(spans_.map().run_of(entry.index).datatype);
  if (!lists_positions(entry.mode)) return entry.bytes == elements * width ? elements : 0;
  const std::size_t size = std::min<std::size_t>(entry.bytes, kMaxVarintBytes);
  std::array<std::byte, kMaxVarintBytes> begin;
  staging.copy(entry.first, size, begin.data());
  ByteReader reader({begin.data(), size});
  std::uint64_t count = 0;
  return reader.read_varint(count) && count <= elements ? count : 0;
}

std::uint64_t DeviceDecodeBatch::content_bytes_of(const codec::BlockEntry& entry) {
  return kernels::aligned_content(entry.bytes) +
         (is_of_classes(entry.mode) ? kernels::kClassTableBytes : 0);
}

bool DeviceDecodeBatch::takes(const codec::BlockEntry& entry) const {
  return entry.last - entry.index <= max_blocks_ &&
         content_bytes_of(entry) <= kernels::aligned_content(max_content_);
}

bool DeviceDecodeBatch::has_room(const codec::BlockEntry& entry, std::uint64_t changes) const {
  return empty() || (entry.last <= span_.end_block && changes_ + changes <= max_changes_ &&
                     content_bytes_ + content_bytes_of(entry) <= max_content_);
}

// Appends to the contents and their table.
void DeviceDecodeBatch::add(const Staging& staging, const codec::BlockEntry& entry,
                            std::uint64_t changes) {
  if (empty()) span_ = spans_.span_over(entry.index, entry.last, max_blocks_);
  auto* const table = reinterpret_cast<kernels::BlockContent*>(pinned_ + pinned_table_at_);
  const std::uint64_t first = empty() ? entry.index : first_block();
  for (std::uint64_t between = empty() ? entry.index : entries_.back().last; between < entry.index;
       ++between)
    table[between - first] = {0, 0, kernels::kNoBlock};
  table[entry.index - first] = {content_bytes_, entry.bytes, device_mode(entry.mode)};
  for (std::uint64_t block = entry.index + 1; block < entry.last; ++block)
    table[block - first] = {0, 0, kernels::kClassesRest};
  std::byte* content = pinned_ + pinned_contents_at_ + content_bytes_;
  if (is_of_classes(entry.mode)) {
    std::memcpy(content, &table_of(entry), sizeof(kernels::ClassTable));
    content += kernels::kClassTableBytes;
    has_classes_ = true;
  }
  staging.copy(entry.first, entry.bytes, content);
  content_bytes_ += content_bytes_of(entry);
  changes_ += changes;
  entries_.push_back(entry);
}

void DeviceDecodeBatch::clear() {
  entries_.clear();
  has_classes_ = false;
  changes_ = content_bytes_ = 0;
}

DeviceDecodeBatch::Answer DeviceDecodeBatch::answer_of(std::uint64_t block_count) {
  const std::size_t errors = block_count * sizeof(kernels::DeviceChangeHashes);
  return {0, errors, errors + block_count * sizeof(kernels::BlockError)};
}

kernels::BlockError DeviceDecodeBatch::error_of(const codec::BlockEntry& entry) const {
  const std::byte* const at = pinned_ + pinned_answer_at_ + answer_of(block_count()).errors;
  const auto* const errors = reinterpret_cast<const kernels::BlockError*>(at) - first_block();
  std::uint64_t block = entry.index;
  while (block + 1 < entry.last && errors[block] == kernels::BlockError::kNone) ++block;
  return errors[block];
}

const kernels::DeviceChangeHashes& DeviceDecodeBatch::hashes_of(std::uint64_t block) const {
  return reinterpret_cast<const kernels::DeviceChangeHashes*>(
      pinned_ + pinned_answer_at_)[block - first_block()];
}

Result<std::byte*> DeviceDecodeBatch::bring(const BlockSpan& span) {
  if (!span.is_gathered) return DeviceSpans::elements_of(span, arrays_);
  SPARCL_RETURN_IF_ERROR(spans_.gather(span, read_arrays_, gathered(), stream_));
  return gathered();
}

kernels::DeviceChanges DeviceDecodeBatch::memory_of(const Changes& changes) const {
  const std::size_t values_at = changes.at * spans_.max_width();
  return {reinterpret_cast<std::uint16_t*>(device_ + positions_at_) + changes.at,
          device_ + old_at_ + values_at, device_ + new_at_ + values_at,
          reinterpret_cast<std::uint64_t*>(device_ + starts_at_) + changes.starts_at};
}

// Places changes after the kept ones; if these leave no room, over them.
void DeviceDecodeBatch::place_changes() {
  if (kept_changes_ + changes_ > max_kept_ || kept_starts_ + block_count() + 1 > max_starts_) {
    kept_.clear();
    kept_changes_ = kept_starts_ = 0;
  }
  decoded_ = {kept_changes_, kept_starts_, spans_.cut(span_, entries_.back().last)};
}

Status DeviceDecodeBatch::decode() {
  place_changes();
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(device_ + contents_at_, pinned_ + pinned_contents_at_,
                                           content_bytes_, stream_));
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(device_ + table_at_, pinned_ + pinned_table_at_,
                                           block_count() * sizeof(kernels::BlockContent), stream_));
  const Answer answer = answer_of(block_count());
  std::byte* const at = device_ + answer_at_;
  const kernels::DecodedBlocks out{
      memory_of(decoded_), std::min(max_changes_, max_kept_ - decoded_.at),
      reinterpret_cast<kernels::DeviceChangeHashes*>(at + answer.hashes),
      reinterpret_cast<kernels::BlockError*>(at + answer.errors), refused()};
  const kernels::DeviceContents contents{
      device_ + contents_at_, reinterpret_cast<kernels::BlockContent*>(device_ + table_at_)};
  const BlockSpan& span = decoded_.span;
  SPARCL_ASSIGN_OR_RETURN(std::byte* const array, bring(span));
  SPARCL_RETURN_IF_ERROR(kernels_.decode(contents, content_bytes_, array, span.elements, span.type,
                                         out, device_ + workspace_at_, workspace_bytes_, stream_));
  if (has_classes_) {
    SPARCL_RETURN_IF_ERROR(kernels_.classes.decode(contents, array, span.elements, out,
                                                   device_ + class_workspace_at_,
                                                   class_workspace_bytes_, stream_));
  }
  return gpu::enqueue_copy(pinned_ + pinned_answer_at_, at, answer.bytes, stream_);
}

Status DeviceDecodeBatch::hash_array() {
  return enqueue_array_hash(scratch_, spans_.map(), read_arrays_, device_ + hash_at_,
                            pinned_ + pinned_hash_at_, stream_);
}

Hash128 DeviceDecodeBatch::array_sum() const { return array_hash_in(pinned_ + pinned_hash_at_); }

void DeviceDecodeBatch::keep() {
  kept_.push_back(decoded_);
  kept_changes_ += changes_;
  kept_starts_ += decoded_.span.block_count() + 1;
}

Status DeviceDecodeBatch::apply_kept() {
  for (const Changes& changes : kept_) SPARCL_RETURN_IF_ERROR(apply(changes));
  kept_.clear();
  kept_changes_ = kept_starts_ = 0;
  return Status();
}

Status DeviceDecodeBatch::apply() { return apply(decoded_); }

Status DeviceDecodeBatch::apply(const Changes& changes) {
  const BlockSpan& span = changes.span;
  SPARCL_ASSIGN_OR_RETURN(std::byte* const array, bring(span));
  SPARCL_RETURN_IF_ERROR(kernels_.apply(memory_of(changes), array, span.elements,
                                        element_bytes(span.type), refused(), stream_));
  if (span.is_gathered) SPARCL_RETURN_IF_ERROR(spans_.scatter(span, array, arrays_, stream_));
  return gpu::enqueue_copy(pinned_ + pinned_refused_at_, refused(), sizeof(std::uint64_t), stream_);
}

Status DeviceDecodeBatch::write_whole(const Staging& staging, const codec::BlockEntry& entry,
                                      unsigned half) {
  std::byte* const at = pinned_ + pinned_contents_at_ + half * (max_content_ / 2 / 16 * 16);
  staging.copy(entry.first, entry.bytes, at);
  return spans_.scatter(spans_.span_at(entry.index, 1), at, arrays_, stream_);
}

bool DeviceDecodeBatch::was_applied() const {
  return *reinterpret_cast<const std::uint64_t*>(pinned_ + pinned_refused_at_) == 0;
}

}  // namespace sparcl::device
