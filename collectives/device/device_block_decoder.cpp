#include "collectives/device/device_block_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/device/memory_layout.hpp"
#include "src/base/bytes.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/state_hash.hpp"

namespace sparcl::collectives {
namespace {

// Of a content that can be right: of a change at most 3 bytes in each of two lists, a sign, and 127 bits of a size; or its value.
constexpr std::uint64_t most_content(std::uint64_t elements, std::uint64_t blocks) { return 24 * elements + 64 * blocks; }
static_assert(BatchLimits().content_bytes >= most_content(codec::kBlockElements, 1));

bool is_fresh(std::uint8_t mode) { return mode == codec::kFreshMode.id; }

// Of the modes that kernels know; what tells fresh blocks apart is the host's.
std::uint32_t device_mode(std::uint8_t mode) { return is_fresh(mode) ? kernels::kDenseBlock : mode; }

bool is_read_here(std::uint8_t mode) {
  const std::uint32_t known = device_mode(mode);
  return known == kernels::kDenseBlock || known == kernels::kVerbatimBlock || known == kernels::kFlatBlock;
}

bool lists_positions(std::uint8_t mode) { return device_mode(mode) != kernels::kDenseBlock; }

}  // namespace

DeviceBlockDecoder::DeviceBlockDecoder(DeviceScratch& scratch, const codec::BlockMap& map, std::byte* held, codec::Verify verify,
                                       const kernels::KernelSet& host, void* stream, const BatchLimits& limits)
    : scratch_(scratch),
      kernels_(scratch.kernels().blocks),
      map_(map),
      held_(held),
      count_(map.element_count()),
      type_(map.arrays()[0].datatype),
      verify_(verify),
      host_(host),
      stream_(stream),
      most_blocks_(std::min(map.block_count(), limits.blocks)),
      most_changes_(std::min(count_, limits.changes)),
      most_content_(std::min(most_content(count_, map.block_count()), limits.content_bytes)) {
  const std::size_t width = element_bytes(type_);
  workspace_bytes_ = kernels_.decode_workspace_bytes(std::min(count_, most_blocks_ * codec::kBlockElements), most_changes_);
  const std::uint64_t table_bytes = most_blocks_ * sizeof(kernels::BlockContent), answer_bytes = answer_of(most_blocks_).bytes;
  MemoryLayout device, pinned;
  starts_at_ = device.place((most_blocks_ + 1) * sizeof(std::uint64_t));
  positions_at_ = device.place(most_changes_ * sizeof(std::uint16_t));
  old_at_ = device.place(most_changes_ * width);
  new_at_ = device.place(most_changes_ * width);
  table_at_ = device.place(table_bytes);
  contents_at_ = device.place(kernels::aligned_content(most_content_));
  answer_at_ = device.place(answer_bytes);
  refused_at_ = device.place(sizeof(std::uint64_t));
  hash_at_ = device.place(sizeof(kernels::DeviceHash));
  workspace_at_ = device.place(workspace_bytes_);
  device_bytes_ = device.size_bytes();
  pinned_table_at_ = pinned.place(table_bytes);
  pinned_contents_at_ = pinned.place(kernels::aligned_content(most_content_));
  pinned_answer_at_ = pinned.place(answer_bytes);
  pinned_refused_at_ = pinned.place(sizeof(std::uint64_t));
  pinned_hash_at_ = pinned.place(sizeof(kernels::DeviceHash));
  pinned_bytes_ = pinned.size_bytes();
}

DeviceBlockDecoder::~DeviceBlockDecoder() {
  if (!is_enqueued_) return;
  const DeviceScope inside(scratch_.context());
  (void)wait_for(stream_);  // whatever comes of it: the memory is the next call's
}

Status DeviceBlockDecoder::reserve() {
  const Result<std::byte*> device = scratch_.on_device(device_bytes_);
  if (!device.ok()) return device.status().with_prefix("what decoding takes on the device: ");
  const Result<std::byte*> pinned = scratch_.pinned(pinned_bytes_);
  if (!pinned.ok()) return pinned.status().with_prefix("staging for what is decoded on the device: ");
  device_ = *device;
  pinned_ = *pinned;
  return Status();
}

DeviceBlockDecoder::Answer DeviceBlockDecoder::answer_of(std::uint64_t block_count) {
  const std::size_t errors = block_count * sizeof(kernels::DeviceChangeHashes);
  return {0, errors, errors + block_count * sizeof(kernels::BlockError)};
}

std::uint64_t DeviceBlockDecoder::elements_of(std::uint64_t first_block, std::uint64_t block_count) const {
  return std::min(count_ - first_block * codec::kBlockElements, block_count * codec::kBlockElements);
}

Status DeviceBlockDecoder::check(const Staging& staging, const codec::BlockEntry& entry) {
  if (!is_read_here(entry.mode)) {
    needs_host_ = true;
    return Status(Code::kUnsupported, "a block is in a mode that the device does not read");
  }
  const std::uint64_t changes = changes_of(staging, entry);
  if (changes == 0 || entry.bytes > most_content(elements_of(entry.index, 1), 1)) return refuse(staging, entry);
  if (!has_room(entry, changes)) {
    SPARCL_RETURN_IF_ERROR(start_batch());
    SPARCL_RETURN_IF_ERROR(finish_batch(staging));
  }
  add(staging, entry, changes);
  return Status();
}

// 0: it does not say, or it is wrong.
std::uint64_t DeviceBlockDecoder::changes_of(const Staging& staging, const codec::BlockEntry& entry) {
  const std::uint64_t elements = elements_of(entry.index, 1);
  if (!lists_positions(entry.mode)) return entry.bytes == elements * element_bytes(type_) ? elements : 0;
  const std::size_t size = std::min<std::size_t>(entry.bytes, kMaxVarintBytes);
  ByteReader reader({staging.contiguous(entry.first, size, scratch_bytes_), size});
  std::uint64_t count = 0;
  return reader.read_varint(count) && count <= elements ? count : 0;
}

bool DeviceBlockDecoder::has_room(const codec::BlockEntry& entry, std::uint64_t changes) const {
  return batch_.empty() || (entry.index - batch_[0].index < most_blocks_ && batch_changes_ + changes <= most_changes_ &&
                            batch_bytes_ + kernels::aligned_content(entry.bytes) <= most_content_);
}

// To the batch's contents and its table, behind what is there.
void DeviceBlockDecoder::add(const Staging& staging, const codec::BlockEntry& entry, std::uint64_t changes) {
  auto* const table = reinterpret_cast<kernels::BlockContent*>(pinned_ + pinned_table_at_);
  const std::uint64_t first = batch_.empty() ? entry.index : batch_[0].index;
  for (std::uint64_t between = batch_.empty() ? entry.index : batch_.back().last; between < entry.index; ++between)
    table[between - first] = {0, 0, kernels::kNoBlock};
  table[entry.index - first] = {batch_bytes_, entry.bytes, device_mode(entry.mode)};
  if (entry.bytes > 0) {
    std::memcpy(pinned_ + pinned_contents_at_ + batch_bytes_, staging.contiguous(entry.first, entry.bytes, scratch_bytes_),
                entry.bytes);
  }
  batch_bytes_ += kernels::aligned_content(entry.bytes);
  batch_changes_ += changes;
  batch_.push_back(entry);
}

kernels::DeviceChanges DeviceBlockDecoder::changes() const {
  return {reinterpret_cast<std::uint16_t*>(device_ + positions_at_), device_ + old_at_, device_ + new_at_,
          reinterpret_cast<std::uint64_t*>(device_ + starts_at_)};
}

// Enqueues it: the batch's changes against what is held.
Status DeviceBlockDecoder::decode_batch() {
  const std::uint64_t first = batch_[0].index, blocks = batch_.back().last - first;
  const Answer answer = answer_of(blocks);
  is_enqueued_ = true;
  SPARCL_RETURN_IF_ERROR(enqueue_copy(device_ + contents_at_, pinned_ + pinned_contents_at_, batch_bytes_, stream_));
  SPARCL_RETURN_IF_ERROR(
      enqueue_copy(device_ + table_at_, pinned_ + pinned_table_at_, blocks * sizeof(kernels::BlockContent), stream_));
  std::byte* const at = device_ + answer_at_;
  const kernels::DecodedBlocks out{changes(), most_changes_, reinterpret_cast<kernels::DeviceChangeHashes*>(at + answer.hashes),
                                   reinterpret_cast<kernels::BlockError*>(at + answer.errors),
                                   reinterpret_cast<std::uint64_t*>(device_ + refused_at_)};
  const std::byte* const array = held_ + first * codec::kBlockElements * element_bytes(type_);
  return kernels_.decode({device_ + contents_at_, reinterpret_cast<kernels::BlockContent*>(device_ + table_at_)}, batch_bytes_,
                         array, elements_of(first, blocks), type_, out, device_ + workspace_at_, workspace_bytes_, stream_);
}

// The batch, and what is held where that is asked: on their way.
Status DeviceBlockDecoder::start_batch() {
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (verify_ == codec::Verify::kFull && !held_is_hashed_) SPARCL_RETURN_IF_ERROR(start_hash());
  if (!batch_.empty()) {
    SPARCL_RETURN_IF_ERROR(decode_batch());
    const std::size_t bytes = answer_of(batch_.back().last - batch_[0].index).bytes;
    SPARCL_RETURN_IF_ERROR(enqueue_copy(pinned_ + pinned_answer_at_, device_ + answer_at_, bytes, stream_));
  }
  Result<DeviceEvent> event = DeviceEvent::record(scratch_.context(), stream_);
  if (event.ok()) has_come_ = std::move(*event);
  is_under_way_ = event.ok();
  return event.status();
}

// Waits for what was started.
Status DeviceBlockDecoder::finish_batch(const Staging& staging) {
  is_under_way_ = false;
  SPARCL_RETURN_IF_ERROR(has_come_.wait());
  if (held_is_hashed_ && !std::exchange(hash_is_counted_, true)) {
    const auto& sum = *reinterpret_cast<const kernels::DeviceHash*>(pinned_ + pinned_hash_at_);
    findings_.sums.held = findings_.sums.held + Hash128{sum.low, sum.high};
  }
  if (batch_.empty()) return Status();
  const std::uint64_t first = batch_[0].index;
  const Answer answer = answer_of(batch_.back().last - first);
  const std::byte* const at = pinned_ + pinned_answer_at_;
  const auto* const hashes = reinterpret_cast<const kernels::DeviceChangeHashes*>(at + answer.hashes);
  const auto* const errors = reinterpret_cast<const kernels::BlockError*>(at + answer.errors);
  for (const codec::BlockEntry& entry : batch_) {
    if (errors[entry.index - first] != kernels::BlockError::kNone) return refuse(staging, entry);
    find(entry, hashes[entry.index - first]);
  }
  findings_.elements += batch_changes_;
  batch_sizes_.push_back(batch_.size());
  batch_.clear();
  batch_bytes_ = batch_changes_ = 0;
  return Status();
}

// As codec::BlockCheck counts them.
void DeviceBlockDecoder::find(const codec::BlockEntry& entry, const kernels::DeviceChangeHashes& hashes) {
  if (verify_ == codec::Verify::kOff || (is_fresh(entry.mode) && verify_ != codec::Verify::kFull && !hashes_fresh_)) return;
  const Hash128 held_values = codec::placed({hashes.old_low, hashes.old_high}, entry.index);
  const Hash128 new_values = codec::placed({hashes.new_low, hashes.new_high}, entry.index);
  codec::BlockSums& sums = findings_.sums;
  sums.change = sums.change + new_values - held_values;
  if (!is_fresh(entry.mode)) {
    sums.held_values = sums.held_values + held_values;
    sums.new_values = sums.new_values + new_values;
  }
  const bool is_odd = lists_positions(entry.mode) && codec::old_check_of(held_values) != entry.old_check;
  if (is_odd && !findings_.odd_blocks) findings_.odd_blocks = codec::BlockRange{entry.index, entry.index};
}

// None of these modes needs what is held to be read: the host says what is wrong.
Status DeviceBlockDecoder::refuse(const Staging& staging, const codec::BlockEntry& entry) {
  const codec::BlockMode& mode = *codec::find_block_mode(entry.mode);
  const codec::BlockShape shape{type_, static_cast<std::uint32_t>(elements_of(entry.index, 1))};
  const std::span<const std::byte> bytes = payload_.load(staging, entry.first, entry.bytes, mode.in_place);
  if (const char* wrong = mode.decode(shape, bytes, host_, refused_block_)) return unreadable(map_, entry, {}, wrong);
  return Status(Code::kInternalError, "the device has refused a block that the host can read");
}

Result<bool> DeviceBlockDecoder::flush(const Staging& staging) {
  const bool is_to_hash = verify_ == codec::Verify::kFull && !held_is_hashed_;
  if (!is_under_way_) {
    if (batch_.empty() && !is_to_hash) return true;
    SPARCL_RETURN_IF_ERROR(start_batch());
  }
  if (!has_come_.is_over()) return false;
  SPARCL_RETURN_IF_ERROR(finish_batch(staging));
  return true;
}

Status DeviceBlockDecoder::start_hash() {
  is_enqueued_ = true;
  auto* const total = reinterpret_cast<kernels::DeviceHash*>(device_ + hash_at_);
  SPARCL_RETURN_IF_ERROR(enqueue_zeros(total, sizeof *total, stream_));
  SPARCL_RETURN_IF_ERROR(kernels_.hash(held_, count_, element_bytes(type_), kernels::HashPlace{}, total, nullptr, stream_));
  SPARCL_RETURN_IF_ERROR(enqueue_copy(pinned_ + pinned_hash_at_, total, sizeof *total, stream_));
  held_is_hashed_ = true;
  return Status();
}

codec::BlockFindings DeviceBlockDecoder::take_findings() { return std::exchange(findings_, {}); }

Status DeviceBlockDecoder::apply(const Staging& staging, std::span<const codec::BlockEntry> entries, bool only_fresh) {
  if (entries.empty()) return Status();
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  const std::size_t last = batch_sizes_.back();
  std::span<const codec::BlockEntry> rest = entries;
  if (!only_fresh) {  // the last batch's changes are there
    rest = entries.first(entries.size() - last);
    batch_.assign(entries.end() - static_cast<std::ptrdiff_t>(last), entries.end());
    SPARCL_RETURN_IF_ERROR(apply_batch());
  }
  for (const std::size_t size : batch_sizes_) {
    if (rest.empty()) break;
    SPARCL_RETURN_IF_ERROR(apply_entries(staging, rest.first(size), only_fresh));
    rest = rest.subspan(size);
  }
  return Status();
}

// The entries of a batch, as they were checked.
Status DeviceBlockDecoder::apply_entries(const Staging& staging, std::span<const codec::BlockEntry> entries, bool only_fresh) {
  batch_.clear();
  batch_bytes_ = batch_changes_ = 0;
  for (const codec::BlockEntry& entry : entries) {
    if (!only_fresh || is_fresh(entry.mode)) add(staging, entry, 0);
  }
  if (batch_.empty()) return Status();
  SPARCL_RETURN_IF_ERROR(decode_batch());
  return apply_batch();
}

Status DeviceBlockDecoder::apply_batch() {
  const std::uint64_t first = batch_[0].index, blocks = batch_.back().last - first;
  std::byte* const array = held_ + first * codec::kBlockElements * element_bytes(type_);
  auto* const refused = reinterpret_cast<std::uint64_t*>(device_ + refused_at_);
  const auto& arrived = *reinterpret_cast<const std::uint64_t*>(pinned_ + pinned_refused_at_);
  SPARCL_RETURN_IF_ERROR(kernels_.apply(changes(), array, elements_of(first, blocks), element_bytes(type_), refused, stream_));
  SPARCL_RETURN_IF_ERROR(enqueue_copy(pinned_ + pinned_refused_at_, refused, sizeof *refused, stream_));
  SPARCL_RETURN_IF_ERROR(wait_for(stream_));
  if (arrived == 0) return Status();
  return Status(Code::kInternalError, "an update that had passed its check failed to decode on the device");
}

}  // namespace sparcl::collectives
