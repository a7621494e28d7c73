#include "collectives/device/device_change_finder.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "collectives/device/memory_layout.hpp"
#include "src/base/log.hpp"
#include "src/base/stage_range.hpp"

namespace sparcl::collectives {
namespace {

constexpr std::size_t kMostRoundedBytes = 2;  // of an element that has a master
constexpr std::uint64_t kMostChanged = 8;     // of the elements one: where more have changed all are read. Heuristic

}  // namespace

Result<std::unique_ptr<DeviceChangeFinder>> DeviceChangeFinder::create(const kernels::DeviceKernelSet& kernels,
                                                                       const codec::BlockMap& map, FinderArrays arrays,
                                                                       void* context, const FinderLimits& limits) {
  std::unique_ptr<DeviceChangeFinder> made(new DeviceChangeFinder(kernels, map, std::move(arrays), limits));
  SPARCL_RETURN_IF_ERROR(made->scratch_.enter(context));
  return made;
}

DeviceChangeFinder::DeviceChangeFinder(const kernels::DeviceKernelSet& kernels, const codec::BlockMap& map, FinderArrays arrays,
                                       const FinderLimits& limits)
    : scratch_(kernels),
      map_(map),
      arrays_(std::move(arrays)),
      spans_(map),
      most_blocks_(std::min(map.block_count(), limits.blocks)),
      most_changes_(std::min(map.element_count(), std::max<std::uint64_t>(limits.changes, codec::kBlockElements))) {
  const std::size_t width = spans_.most_width(), starts_bytes = (most_blocks_ + 1) * sizeof(std::uint64_t);
  const std::uint64_t most_elements = std::min(map.element_count(), most_blocks_ * codec::kBlockElements);
  const std::uint64_t rounded_bytes = arrays_.masters.empty() ? 0 : most_elements * kMostRoundedBytes;
  workspace_bytes_ = kernels.blocks.diff_workspace_bytes(most_elements);
  MemoryLayout device, pinned;
  starts_at_ = device.place(starts_bytes);
  positions_at_ = device.place(most_changes_ * sizeof(std::uint16_t));
  old_at_ = device.place(most_changes_ * width);
  new_at_ = device.place(most_changes_ * width);
  workspace_at_ = device.place(workspace_bytes_);
  base_at_ = device.place(spans_.gathered_bytes());
  target_at_ = device.place(std::max<std::uint64_t>(spans_.gathered_bytes(), rounded_bytes));
  device_bytes_ = device.size_bytes();
  for (std::size_t& at : pinned_starts_at_) at = pinned.place(starts_bytes);
  pinned_positions_at_ = pinned.place(most_changes_ * sizeof(std::uint16_t));
  pinned_new_at_ = pinned.place(most_changes_ * width);
  pinned_bytes_ = pinned.size_bytes();
}

Status DeviceChangeFinder::reserve() {
  const Result<DeviceScratch::Memory> memory = scratch_.both(device_bytes_, pinned_bytes_, "finding changes");
  if (!memory.ok()) return memory.status();
  device_ = memory->device;
  pinned_ = memory->pinned;
  return {};
}

Result<std::shared_ptr<const codec::ChangeLog>> DeviceChangeFinder::find() {
  if (kept_ == nullptr) return std::shared_ptr<const codec::ChangeLog>();
  const StageRange range("find changes on the device");
  auto log = std::make_shared<codec::ChangeLog>();
  SPARCL_RETURN_IF_ERROR(find_all(*log));
  if (log->changes() > map_.element_count() / kMostChanged) return std::shared_ptr<const codec::ChangeLog>();
  log->finish();
  return std::shared_ptr<const codec::ChangeLog>(std::move(log));
}

Status DeviceChangeFinder::find_all(codec::ChangeLog& log) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(nullptr, kept_);
  Section section{spans_.span_at(0, most_blocks_), 0};
  SPARCL_RETURN_IF_ERROR(enqueue_diff(section));
  for (bool has_more = true; has_more;) {
    SPARCL_RETURN_IF_ERROR(wait_for(nullptr));
    const std::uint64_t blocks = blocks_with_room(section);
    SPARCL_RETURN_IF_ERROR(fetch(section, blocks));
    SPARCL_RETURN_IF_ERROR(wait_for(nullptr));
    const std::uint64_t next_block = section.span.first_block + blocks;
    has_more = next_block < map_.block_count() && log.changes() <= map_.element_count() / kMostChanged;
    const Section next{has_more ? spans_.span_at(next_block, most_blocks_) : BlockSpan{}, 1 - section.half};
    if (has_more) SPARCL_RETURN_IF_ERROR(enqueue_diff(next));
    add(section, blocks, log);
    section = next;
  }
  return {};
}

Result<const std::byte*> DeviceChangeFinder::bring_base(const BlockSpan& span) {
  const std::vector<const std::byte*> kept(kept_->arrays().begin(), kept_->arrays().end());
  if (!span.is_gathered) return DeviceSpans::elements_of<const std::byte>(span, kept);
  SPARCL_RETURN_IF_ERROR(spans_.gather(span, kept, device_ + base_at_, nullptr));
  return static_cast<const std::byte*>(device_ + base_at_);
}

Result<const std::byte*> DeviceChangeFinder::bring_target(const BlockSpan& span) {
  if (!span.is_gathered && arrays_.master_of(span.array) == nullptr)
    return DeviceSpans::elements_of<const std::byte>(span, arrays_.arrays);
  std::byte* const to = device_ + target_at_;
  SPARCL_RETURN_IF_ERROR(spans_.for_pieces(span.first_block, span.end_block,
                                           [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
                                             return copy_rounded(array, at, bytes, to + place);
                                           }));
  return static_cast<const std::byte*>(to);
}

// Of an array's bytes as they travel.
Status DeviceChangeFinder::copy_rounded(std::size_t array, std::uint64_t first_byte, std::size_t bytes, std::byte* out) const {
  const float* const master = arrays_.master_of(array);
  if (master == nullptr) return enqueue_copy(out, arrays_.arrays[array] + first_byte, bytes, nullptr);
  const DataType type = map_.arrays()[array].datatype;
  const std::size_t width = element_bytes(type);
  return scratch_.kernels().blocks.cast(master + first_byte / width, bytes / width, type, out, nullptr);
}

Status DeviceChangeFinder::enqueue_diff(const Section& section) {
  const BlockSpan& span = section.span;
  const Result<const std::byte*> base = bring_base(span), target = bring_target(span);
  if (!base.ok() || !target.ok()) return base.ok() ? target.status() : base.status();
  const kernels::DeviceChanges changes{reinterpret_cast<std::uint16_t*>(device_ + positions_at_), device_ + old_at_,
                                       device_ + new_at_, reinterpret_cast<std::uint64_t*>(device_ + starts_at_)};
  SPARCL_RETURN_IF_ERROR(scratch_.kernels().blocks.diff(*base, *target, span.elements, element_bytes(span.type), changes,
                                                        most_changes_, device_ + workspace_at_, workspace_bytes_, nullptr));
  return enqueue_copy(pinned_ + pinned_starts_at_[section.half], device_ + starts_at_,
                      (span.block_count() + 1) * sizeof(std::uint64_t), nullptr);
}

const std::uint64_t* DeviceChangeFinder::starts_of(const Section& section) const {
  return reinterpret_cast<const std::uint64_t*>(pinned_ + pinned_starts_at_[section.half]);
}

// The first block's always have.
std::uint64_t DeviceChangeFinder::blocks_with_room(const Section& section) const {
  const std::uint64_t* const ends = starts_of(section) + 1;
  return static_cast<std::uint64_t>(std::upper_bound(ends, ends + section.span.block_count(), most_changes_) - ends);
}

Status DeviceChangeFinder::fetch(const Section& section, std::uint64_t blocks) {
  if (blocks == 0) return Status(Code::kInternalError, "the device has found more changes in a block than it has elements");
  const auto changes = static_cast<std::size_t>(starts_of(section)[blocks]);
  if (changes == 0) return {};
  SPARCL_RETURN_IF_ERROR(
      enqueue_copy(pinned_ + pinned_positions_at_, device_ + positions_at_, changes * sizeof(std::uint16_t), nullptr));
  return enqueue_copy(pinned_ + pinned_new_at_, device_ + new_at_, changes * element_bytes(section.span.type), nullptr);
}

void DeviceChangeFinder::add(const Section& section, std::uint64_t blocks, codec::ChangeLog& log) const {
  const std::size_t width = element_bytes(section.span.type);
  const auto* const positions = reinterpret_cast<const std::uint16_t*>(pinned_ + pinned_positions_at_);
  const std::uint64_t* const starts = starts_of(section);
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto first = static_cast<std::size_t>(starts[block]), count = static_cast<std::size_t>(starts[block + 1]) - first;
    if (count > 0) {
      log.add(section.span.first_block + block, width, {positions + first, count},
              {pinned_ + pinned_new_at_ + first * width, count * width});
    }
  }
}

void DeviceChangeFinder::keep(std::span<const codec::ChangedHint* const> hints) {
  const bool is_known = kept_ != nullptr || hints.empty();  // of arrays that nothing was sent of
  if (codec::name_changes(hints) || !is_known) return forget();
  Status status;
  try {
    status = bring_forward(hints);
  } catch (const std::bad_alloc&) {
    status = Status(Code::kOutOfMemory, "no memory");
  }
  if (status.ok()) return;
  forget();
  if (!std::exchange(has_told_, true))
    log_info("what changes in tensors in device memory is found by reading all of them: {}", status.message());
}

// Its memory is given back once the stream does not use it any more.
void DeviceChangeFinder::forget() {
  kept_.reset();
  (void)scratch_.is_free();
}

Status DeviceChangeFinder::bring_forward(std::span<const codec::ChangedHint* const> hints) {
  if (kept_ == nullptr) {
    Result<std::shared_ptr<const model::DeviceSnapshot>> made = model::DeviceSnapshot::make(map_, scratch_.context());
    if (!made.ok()) return made.status();
    kept_ = std::move(*made);
  }
  const DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(nullptr, kept_);
  for (std::size_t i = 0; i < map_.arrays().size(); ++i) {
    const codec::ArraySpec& array = map_.arrays()[i];
    const bool is_out = array.count == 0 || (!hints.empty() && hints[i] != nullptr);
    if (is_out) continue;
    SPARCL_RETURN_IF_ERROR(copy_rounded(i, 0, array.count * element_bytes(array.datatype), kept_->arrays()[i]));
  }
  return wait_for(nullptr);
}

}  // namespace sparcl::collectives
