#include "src/device/device_change_finder.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/stage_range.hpp"
#include "src/device/memory_layout.hpp"

namespace sparcl::device {
namespace {

constexpr std::size_t kMaxRoundedBytes = 2;  // for each element with a master
constexpr std::uint64_t kMaxChanged =
    8;  // 1 / 8 of the elements: if more have changed, all are read. Heuristic

}  // namespace

Result<std::unique_ptr<DeviceChangeFinder>> DeviceChangeFinder::create(
    const kernels::DeviceKernelSet& kernels, const codec::BlockMap& map, FinderArrays arrays,
    void* context, const FinderLimits& limits) {
  std::unique_ptr<DeviceChangeFinder> made(
      new DeviceChangeFinder(kernels, map, std::move(arrays), limits));
  SPARCL_RETURN_IF_ERROR(made->scratch_.enter(context));
  return made;
}

DeviceChangeFinder::DeviceChangeFinder(const kernels::DeviceKernelSet& kernels,
                                       const codec::BlockMap& map, FinderArrays arrays,
                                       const FinderLimits& limits)
    : scratch_(kernels),
      map_(map),
      arrays_(std::move(arrays)),
      spans_(map),
      max_blocks_(std::min(map.block_count(), limits.blocks)),
      max_changes_(std::min(map.element_count(),
                            std::max<std::uint64_t>(limits.changes, codec::kBlockElements))) {
  const std::size_t width = spans_.max_width(),
                    starts_bytes = (max_blocks_ + 1) * sizeof(std::uint64_t);
  const std::uint64_t max_elements =
      std::min(map.element_count(), max_blocks_ * codec::kBlockElements);
  const std::uint64_t rounded_bytes = arrays_.masters.empty() ? 0 : max_elements * kMaxRoundedBytes;
  workspace_bytes_ = kernels.blocks.diff_workspace_bytes(max_elements);
  MemoryLayout device, pinned;
  starts_at_ = device.place(starts_bytes);
  positions_at_ = device.place(max_changes_ * sizeof(std::uint16_t));
  old_at_ = device.place(max_changes_ * width);
  new_at_ = device.place(max_changes_ * width);
  refused_at_ = device.place(sizeof(std::uint64_t));
  workspace_at_ = device.place(workspace_bytes_);
  base_at_ = device.place(spans_.gathered_bytes());
  target_at_ = device.place(std::max<std::uint64_t>(spans_.gathered_bytes(), rounded_bytes));
  device_bytes_ = device.size_bytes();
  for (std::size_t& at : pinned_starts_at_) at = pinned.place(starts_bytes);
  pinned_positions_at_ = pinned.place(max_changes_ * sizeof(std::uint16_t));
  pinned_new_at_ = pinned.place(max_changes_ * width);
  pinned_bytes_ = pinned.size_bytes();
}

// Memory that a shared stream may still use is freed when the stream's work is done.
Status DeviceChangeFinder::reserve() {
  SPARCL_RETURN_IF_ERROR(scratch_.enter(scratch_.context()));
  SPARCL_ASSIGN_OR_RETURN(const DeviceScratch::Memory memory,
                          scratch_.both(device_bytes_, pinned_bytes_, "finding changes"));
  device_ = memory.device;
  pinned_ = memory.pinned;
  return {};
}

Result<std::shared_ptr<const codec::ChangeLog>> DeviceChangeFinder::find(Hints hints) {
  std::shared_ptr<const codec::ChangeLog> nothing;
  if (std::exchange(copy_, Copy::kNone) != Copy::kVersion) return nothing;
  const StageRange range("find changes on the device");
  auto log = std::make_shared<codec::ChangeLog>();
  Status status;
  try {
    status = find_all(hints, *log);
    log->finish();
  } catch (const std::bad_alloc&) {
    status = Status(Code::kOutOfMemory, "no memory on the host for what has changed");
  }
  if (status.code() == Code::kOutOfMemory) {
    log_debug("all tensors are read: {}", status.message());
    return nothing;
  }
  SPARCL_RETURN_IF_ERROR(status);
  if (is_too_much(*log)) return nothing;
  copy_ = Copy::kAhead;
  return std::shared_ptr<const codec::ChangeLog>(std::move(log));
}

bool DeviceChangeFinder::is_too_much(const codec::ChangeLog& log) const {
  return log.changes() > map_.element_count() / kMaxChanged;
}

Status DeviceChangeFinder::find_all(Hints hints, codec::ChangeLog& log) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(nullptr, kept_);
  Section section = section_at(0, hints, 0);
  if (section.span.block_count() > 0) SPARCL_RETURN_IF_ERROR(enqueue_diff(section, hints));
  while (section.span.block_count() > 0) {
    SPARCL_RETURN_IF_ERROR(gpu::wait_for(nullptr));
    const std::uint64_t blocks = blocks_with_room(section);
    SPARCL_RETURN_IF_ERROR(fetch_and_apply(section, blocks));
    SPARCL_RETURN_IF_ERROR(gpu::wait_for(nullptr));
    const std::uint64_t next_block =
        is_too_much(log) ? map_.block_count() : section.span.first_block + blocks;
    const Section next = section_at(next_block, hints, 1 - section.half);
    if (next.span.block_count() > 0) SPARCL_RETURN_IF_ERROR(enqueue_diff(next, hints));
    add(section, blocks, log);
    section = next;
  }
  scratch_.has_been_waited_for();
  return {};
}

// The section from this block on, without arrays that are not examined; empty at the end.
DeviceChangeFinder::Section DeviceChangeFinder::section_at(std::uint64_t block, Hints hints,
                                                           unsigned half) {
  while (block < map_.block_count()) {
    const BlockSpan span = spans_.span_at(block, max_blocks_);
    if (span.is_gathered || hints.empty() || hints[span.array] == nullptr) return {span, half};
    block = span.end_block;
  }
  return {};
}

Result<std::byte*> DeviceChangeFinder::bring_base(const BlockSpan& span) {
  if (!span.is_gathered) return DeviceSpans::elements_of(span, kept_->arrays());
  const std::vector<const std::byte*> kept(kept_->arrays().begin(), kept_->arrays().end());
  SPARCL_RETURN_IF_ERROR(spans_.gather(span, kept, device_ + base_at_, nullptr));
  return device_ + base_at_;
}

// For arrays that are not examined returns the copy, so that nothing of them differs.
Result<const std::byte*> DeviceChangeFinder::bring_target(const BlockSpan& span, Hints hints) {
  if (!span.is_gathered && arrays_.master_of(span.array) == nullptr)
    return DeviceSpans::elements_of<const std::byte>(span, arrays_.arrays);
  std::byte* const to = device_ + target_at_;
  SPARCL_RETURN_IF_ERROR(spans_.for_pieces(
      span.first_block, span.end_block,
      [&](std::uint32_t array, std::uint64_t at, std::size_t bytes, std::uint64_t place) {
        const bool is_looked_at = hints.empty() || hints[array] == nullptr;
        return is_looked_at
                   ? copy_rounded(array, at, bytes, to + place)
                   : gpu::enqueue_copy(to + place, kept_->arrays()[array] + at, bytes, nullptr);
      }));
  return static_cast<const std::byte*>(to);
}

// Copies bytes of an array as they are sent.
Status DeviceChangeFinder::copy_rounded(std::size_t array, std::uint64_t first_byte,
                                        std::size_t bytes, std::byte* out) const {
  const float* const master = arrays_.master_of(array);
  if (master == nullptr)
    return gpu::enqueue_copy(out, arrays_.arrays[array] + first_byte, bytes, nullptr);
  const DataType type = map_.arrays()[array].datatype;
  const std::size_t width = element_bytes(type);
  return scratch_.kernels().blocks.cast(master + first_byte / width, bytes / width, type, out,
                                        nullptr);
}

kernels::DeviceChanges DeviceChangeFinder::changes() const {
  return {reinterpret_cast<std::uint16_t*>(device_ + positions_at_), device_ + old_at_,
          device_ + new_at_, reinterpret_cast<std::uint64_t*>(device_ + starts_at_)};
}

Status DeviceChangeFinder::enqueue_diff(const Section& section, Hints hints) {
  const BlockSpan& span = section.span;
  SPARCL_ASSIGN_OR_RETURN(std::byte* const base, bring_base(span));
  SPARCL_ASSIGN_OR_RETURN(const std::byte* const target, bring_target(span, hints));
  SPARCL_RETURN_IF_ERROR(scratch_.kernels().blocks.diff(
      base, target, span.elements, element_bytes(span.type), changes(), max_changes_,
      device_ + workspace_at_, workspace_bytes_, nullptr));
  return gpu::enqueue_copy(pinned_ + pinned_starts_at_[section.half], device_ + starts_at_,
                           (span.block_count() + 1) * sizeof(std::uint64_t), nullptr);
}

const std::uint64_t* DeviceChangeFinder::starts_of(const Section& section) const {
  return reinterpret_cast<const std::uint64_t*>(pinned_ + pinned_starts_at_[section.half]);
}

// The first block always has room.
std::uint64_t DeviceChangeFinder::blocks_with_room(const Section& section) const {
  const std::uint64_t* const ends = starts_of(section) + 1;
  return static_cast<std::uint64_t>(
      std::upper_bound(ends, ends + section.span.block_count(), max_changes_) - ends);
}

// Handles the section's first blocks. Gathered elements are still in place: these copies come
// before those of the next section.
Status DeviceChangeFinder::fetch_and_apply(const Section& section, std::uint64_t blocks) {
  if (blocks == 0)
    return Status(Code::kInternalError,
                  "the device has found more changes in a block than it has elements");
  const auto count = static_cast<std::size_t>(starts_of(section)[blocks]);
  if (count == 0) return {};
  const BlockSpan span = spans_.cut(section.span, section.span.first_block + blocks);
  const std::size_t width = element_bytes(span.type);
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(pinned_ + pinned_positions_at_, device_ + positions_at_,
                                           count * sizeof(std::uint16_t), nullptr));
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(pinned_ + pinned_new_at_, device_ + new_at_, count * width, nullptr));
  auto* const refused = reinterpret_cast<std::uint64_t*>(device_ + refused_at_);
  std::byte* const base =
      span.is_gathered ? device_ + base_at_ : DeviceSpans::elements_of(span, kept_->arrays());
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(refused, sizeof *refused, nullptr));
  SPARCL_RETURN_IF_ERROR(
      scratch_.kernels().blocks.apply(changes(), base, span.elements, width, refused, nullptr));
  return span.is_gathered ? spans_.scatter(span, base, kept_->arrays(), nullptr) : Status();
}

void DeviceChangeFinder::add(const Section& section, std::uint64_t blocks,
                             codec::ChangeLog& log) const {
  const std::size_t width = element_bytes(section.span.type);
  const auto* const positions =
      reinterpret_cast<const std::uint16_t*>(pinned_ + pinned_positions_at_);
  const std::uint64_t* const starts = starts_of(section);
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const auto first = static_cast<std::size_t>(starts[block]),
               count = static_cast<std::size_t>(starts[block + 1]) - first;
    if (count > 0) {
      log.add(section.span.first_block + block, width, {positions + first, count},
              {pinned_ + pinned_new_at_ + first * width, count * width});
    }
  }
}

void DeviceChangeFinder::keep(Hints hints, std::span<std::byte* const> sent) noexcept {
  if (codec::name_changes(hints)) return forget();
  if (copy_ == Copy::kAhead) return void(copy_ = Copy::kVersion);
  try {
    const Status status = copy_all(hints, sent);
    if (status.ok()) return void(copy_ = Copy::kVersion);
    if (!std::exchange(has_told_, true))
      log_info("what changes in tensors in device memory is found by reading all of them: {}",
               status.message());
  } catch (const std::exception&) {  // out of memory
  }
  forget();
}

// Frees its memory when the stream does not use it any more.
void DeviceChangeFinder::forget() noexcept {
  copy_ = Copy::kNone;
  kept_.reset();
  try {
    (void)scratch_.is_free();
  } catch (const std::exception&) {  // out of memory: the next call tries again
  }
}

Status DeviceChangeFinder::copy_all(Hints hints, std::span<std::byte* const> sent) {
  if (kept_ == nullptr) {
    SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<const model::DeviceSnapshot> made,
                            model::DeviceSnapshot::make(map_, scratch_.context()));
    kept_ = std::move(made);
  }
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(nullptr, kept_);
  for (std::size_t i = 0; i < map_.arrays().size(); ++i) {
    const std::size_t bytes = map_.arrays()[i].bytes();
    const bool is_sent_as_it_is = !hints.empty() && hints[i] != nullptr;
    if (bytes == 0) continue;
    SPARCL_RETURN_IF_ERROR(is_sent_as_it_is
                               ? gpu::enqueue_copy(kept_->arrays()[i], sent[i], bytes, nullptr)
                               : copy_rounded(i, 0, bytes, kept_->arrays()[i]));
  }
  SPARCL_RETURN_IF_ERROR(gpu::wait_for(nullptr));
  scratch_.has_been_waited_for();
  return {};
}

}  // namespace sparcl::device
