#include "src/device/device_block_encoder.hpp"

#include <algorithm>
#include <utility>

#include "src/codec/block_map.hpp"
#include "src/codec/superblock.hpp"
#include "src/device/array_hash.hpp"
#include "src/device/memory_layout.hpp"

namespace sparcl::device {

DeviceBlockEncoder::DeviceBlockEncoder(DeviceScratch& scratch, const DevicePair& arrays,
                                       void* stream, bool with_classes, const SectionLimits& limits)
    : scratch_(scratch),
      kernels_(scratch.kernels().blocks),
      arrays_(arrays),
      spans_(*arrays.map),
      stream_(stream),
      all_blocks_(arrays.map->block_count()),
      max_blocks_(std::min(
          all_blocks_, with_classes ? std::max<std::uint64_t>(limits.blocks, codec::kSuperBlocks)
                                    : limits.blocks)),
      max_changes_(std::min(arrays.map->element_count(), limits.changes)),
      section_blocks_(max_blocks_) {
  const std::size_t width = spans_.max_width();
  const std::uint64_t max_elements =
      std::min(arrays.map->element_count(), max_blocks_ * codec::kBlockElements);
  const std::uint64_t contents_bytes = kernels::max_coded_bytes(max_changes_, max_blocks_, width);
  workspace_bytes_ = std::max(kernels_.diff_workspace_bytes(max_elements),
                              kernels_.encode_workspace_bytes(max_elements, max_changes_));
  const auto has_classes = [](const codec::ArraySpec& array) {
    return codec::has_classes(array.datatype);
  };
  if (with_classes && std::ranges::any_of(arrays.map->arrays(), has_classes)) {
    classes_.emplace(*arrays.map);
    class_workspace_bytes_ = kernels_.classes.encode_workspace_bytes(max_elements, max_changes_);
  }
  MemoryLayout device, pinned;
  meta_at_ = device.place(meta_of(max_blocks_).bytes);
  positions_at_ = device.place(max_changes_ * sizeof(std::uint16_t));
  old_at_ = device.place(max_changes_ * width);
  new_at_ = device.place(max_changes_ * width);
  contents_at_ = device.place(contents_bytes);
  hash_at_ = device.place(kArrayHashBytes);
  workspace_at_ = device.place(workspace_bytes_);
  if (classes_) {
    classes_end_at_ = device.place(sizeof(std::uint64_t));
    class_workspace_at_ = device.place(class_workspace_bytes_);
    samples_at_ = device.place(classes_->bytes());
  }
  base_at_ = device.place(spans_.gathered_bytes());
  target_at_ = device.place(spans_.gathered_bytes());
  device_bytes_ = device.size_bytes();
  for (std::size_t& at : pinned_meta_at_) at = pinned.place(meta_of(max_blocks_).bytes);
  pinned_hash_at_ = pinned.place(kArrayHashBytes);
  pinned_contents_at_ = pinned.place(contents_bytes);
  pinned_contents_end_ = pinned.size_bytes();
  if (classes_) pinned_samples_at_ = pinned.place(classes_->bytes());
  pinned_bytes_ = pinned.size_bytes();
}

DeviceBlockEncoder::~DeviceBlockEncoder() { scratch_.end_use(); }

Status DeviceBlockEncoder::reserve() {
  SPARCL_ASSIGN_OR_RETURN(const DeviceScratch::Memory memory,
                          scratch_.both(device_bytes_, pinned_bytes_, "coding"));
  device_ = memory.device;
  pinned_ = memory.pinned;
  return Status();
}

Status DeviceBlockEncoder::begin(bool hashes_base) {
  SPARCL_RETURN_IF_ERROR(reserve());
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  scratch_.begin_use(stream_, arrays_.owner);
  if (hashes_base) {
    SPARCL_RETURN_IF_ERROR(enqueue_array_hash(scratch_, *arrays_.map, arrays_.base,
                                              device_ + hash_at_, pinned_ + pinned_hash_at_,
                                              stream_));
  }
  if (!classes_) return enqueue({span_from(0), 0});
  is_sampling_ = true;
  return classes_->sample(scratch_, arrays_.base, arrays_.target, device_ + samples_at_,
                          pinned_ + pinned_samples_at_, stream_);
}

Hash128 DeviceBlockEncoder::base_sum() const { return array_hash_in(pinned_ + pinned_hash_at_); }

// One piece of memory, so that one copy transfers it: the starts, the blocks, their hashes.
DeviceBlockEncoder::Meta DeviceBlockEncoder::meta_of(std::uint64_t block_count) {
  const std::size_t blocks = (block_count + 1) * sizeof(std::uint64_t);
  const std::size_t hashes = blocks + (block_count + 1) * sizeof(kernels::BlockContent);
  return {0, blocks, hashes, hashes + block_count * sizeof(kernels::DeviceChangeHashes)};
}

BlockSpan DeviceBlockEncoder::span_from(std::uint64_t block) {
  if (!classes_) return spans_.span_at(block, section_blocks_);
  return spans_.span_of_superblocks(block,
                                    std::max<std::uint64_t>(section_blocks_, codec::kSuperBlocks));
}

Result<const std::byte*> DeviceBlockEncoder::bring(const BlockSpan& span,
                                                   std::span<const std::byte* const> arrays,
                                                   std::size_t at) {
  if (!span.is_gathered) return DeviceSpans::elements_of(span, arrays);
  SPARCL_RETURN_IF_ERROR(spans_.gather(span, arrays, device_ + at, stream_));
  return static_cast<const std::byte*>(device_ + at);
}

Status DeviceBlockEncoder::enqueue(Section section) {
  const BlockSpan& span = section.span;
  const Result<const std::byte*> base = bring(span, arrays_.base, base_at_),
                                 target = bring(span, arrays_.target, target_at_);
  if (!base.ok() || !target.ok()) return base.ok() ? target.status() : base.status();
  const Meta meta = meta_of(section.span.block_count());
  std::byte* const at = device_ + meta_at_;
  const kernels::DeviceChanges changes{reinterpret_cast<std::uint16_t*>(device_ + positions_at_),
                                       device_ + old_at_, device_ + new_at_,
                                       reinterpret_cast<std::uint64_t*>(at + meta.starts)};
  kernels::DeviceContents contents{device_ + contents_at_,
                                   reinterpret_cast<kernels::BlockContent*>(at + meta.blocks)};
  auto* const hashes = reinterpret_cast<kernels::DeviceChangeHashes*>(at + meta.hashes);
  std::byte* const workspace = device_ + workspace_at_;
  SPARCL_RETURN_IF_ERROR(kernels_.diff(*base, *target, span.elements, element_bytes(span.type),
                                       changes, max_changes_, workspace, workspace_bytes_,
                                       stream_));
  if (const std::optional<SpanClasses> classes = classes_ ? classes_->of(span) : std::nullopt) {
    section.table = classes->table;
    contents.classes_end = reinterpret_cast<std::uint64_t*>(device_ + classes_end_at_);
    SPARCL_RETURN_IF_ERROR(kernels_.classes.encode(
        changes, max_changes_, *base, span.elements, classes->span, contents, hashes,
        device_ + class_workspace_at_, class_workspace_bytes_, stream_));
  }
  SPARCL_RETURN_IF_ERROR(kernels_.encode(changes, max_changes_, *target, span.elements, span.type,
                                         contents, hashes, workspace, workspace_bytes_, stream_));
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(pinned_ + pinned_meta_at_[section.half], at, meta.bytes, stream_));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event,
                          gpu::DeviceEvent::record(scratch_.context(), stream_));
  is_coded_ = std::move(event);
  coming_ = section;
  return Status();
}

Result<std::optional<CodedSection>> DeviceBlockEncoder::next() {
  const gpu::DeviceScope inside(scratch_.context());
  SPARCL_RETURN_IF_ERROR(inside.status());
  if (is_sampling_) {
    if (!classes_->is_there()) return std::optional<CodedSection>();
    SPARCL_RETURN_IF_ERROR(classes_->choose());
    is_sampling_ = false;
    SPARCL_RETURN_IF_ERROR(enqueue({span_from(0), 0}));
  }
  if (!coded_) {
    if (!is_coded_.is_over()) return std::optional<CodedSection>();
    SPARCL_RETURN_IF_ERROR(is_coded_.wait());
    SPARCL_RETURN_IF_ERROR(enqueue_contents());
  }
  if (!have_come_.is_over()) return std::optional<CodedSection>();
  SPARCL_RETURN_IF_ERROR(have_come_.wait());
  return std::exchange(coded_, std::nullopt);
}

// Copies the contents of the coded section. The next section is enqueued after the copy, because it
// overwrites them on the device.
Status DeviceBlockEncoder::enqueue_contents() {
  const Section section = *coming_;
  const Meta meta = meta_of(section.span.block_count());
  const std::byte* const at = pinned_ + pinned_meta_at_[section.half];
  CodedSection coded{section.span.first_block,
                     0,
                     reinterpret_cast<const std::uint64_t*>(at + meta.starts),
                     reinterpret_cast<const kernels::BlockContent*>(at + meta.blocks),
                     reinterpret_cast<const kernels::DeviceChangeHashes*>(at + meta.hashes),
                     pinned_ + pinned_contents_at_,
                     section.table};
  while (coded.block_count < section.span.block_count() &&
         coded.blocks[coded.block_count].mode != kernels::kLostBlock)
    ++coded.block_count;
  const std::uint64_t bytes = coded.blocks[coded.block_count].offset;
  if (section.table != nullptr && coded.block_count < section.span.block_count())
    coded.block_count = whole_superblocks(section.span, coded.block_count);
  if (coded.block_count == 0 || bytes > pinned_contents_end_ - pinned_contents_at_)
    return Status(Code::kInternalError,
                  "the device has coded none of a section's blocks, or more than they can take");
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(pinned_ + pinned_contents_at_, device_ + contents_at_,
                                           static_cast<std::size_t>(bytes), stream_));
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event,
                          gpu::DeviceEvent::record(scratch_.context(), stream_));
  have_come_ = std::move(event);
  coded_ = coded;
  coming_.reset();
  plan_next(section, coded.block_count);
  const std::uint64_t next_block = section.span.first_block + coded.block_count;
  if (next_block == all_blocks_) return Status();
  return enqueue({span_from(next_block), 1 - section.half});
}

// The number of blocks that had room and end before the first superblock without room, so that
// classes find that superblock whole in the next section. If the first superblock had no room, all
// blocks that had room.
std::uint64_t DeviceBlockEncoder::whole_superblocks(const BlockSpan& span,
                                                    std::uint64_t coded) const {
  const std::uint64_t into =
      (span.first_block + coded - arrays_.map->run_of(span.first_block).first_block) %
      codec::kSuperBlocks;
  return into < coded ? coded - into : coded;
}

// Blocks without room were read for nothing. The next sections therefore have only as many blocks
// as had room, until much room is left again.
void DeviceBlockEncoder::plan_next(const Section& section, std::uint64_t coded) {
  if (coded < section.span.block_count()) {
    section_blocks_ = coded;
    return;
  }
  const auto* const starts =
      reinterpret_cast<const std::uint64_t*>(pinned_ + pinned_meta_at_[section.half]);
  if (starts[coded] < max_changes_ / 2)
    section_blocks_ = std::min(2 * section_blocks_, max_blocks_);
}

}  // namespace sparcl::device
