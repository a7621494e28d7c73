#include "src/device/device_class_tables.hpp"

#include <algorithm>
#include <utility>

#include "src/device/memory_layout.hpp"

namespace sparcl::device {

DeviceClassTables::DeviceClassTables(const codec::BlockMap& map) : map_(map) {
  for (std::uint64_t block = 0; block < map.block_count();) {
    const codec::BlockMap::BlockRun run = map.run_of(block);
    for (block = run.first_block; block < run.end();
         block = std::min(block + kRegionBlocks, run.end())) {
      if (!codec::has_classes(run.datatype)) continue;
      const Region region{block, std::min(block + kRegionBlocks, run.end())};
      for (const codec::SamplePart& part : codec::sample_parts(map, region.first, region.end))
        parts_.push_back({part, static_cast<std::uint32_t>(regions_.size())});
      regions_.push_back(region);
    }
  }
}

std::size_t DeviceClassTables::bytes() const {
  MemoryLayout layout;
  layout.place(regions_.size() * sizeof(kernels::ClassSampleCounts));
  layout.place(parts_.size() * sizeof(kernels::ClassSampleChunk));
  return layout.size_bytes();
}

Status DeviceClassTables::sample(DeviceScratch& scratch, std::span<const std::byte* const> base,
                                 std::span<const std::byte* const> target, std::byte* device,
                                 std::byte* pinned, void* stream) {
  MemoryLayout layout;
  const std::size_t count_bytes = regions_.size() * sizeof(kernels::ClassSampleCounts);
  const std::size_t counts_at = layout.place(count_bytes);
  const std::size_t chunk_bytes = parts_.size() * sizeof(kernels::ClassSampleChunk),
                    chunks_at = layout.place(chunk_bytes);
  auto* const chunks = reinterpret_cast<kernels::ClassSampleChunk*>(pinned + chunks_at);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto& [part, region] = parts_[i];
    const std::size_t at = part.first * sizeof(std::uint16_t);
    chunks[i] = {base[part.array] + at, target[part.array] + at, part.count, region};
  }
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_copy(device + chunks_at, chunks, chunk_bytes, stream));
  SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(device + counts_at, count_bytes, stream));
  SPARCL_RETURN_IF_ERROR(scratch.kernels().blocks.classes.sample(
      reinterpret_cast<const kernels::ClassSampleChunk*>(device + chunks_at), parts_.size(),
      reinterpret_cast<kernels::ClassSampleCounts*>(device + counts_at), stream));
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(pinned + counts_at, device + counts_at, count_bytes, stream));
  counts_ = reinterpret_cast<const kernels::ClassSampleCounts*>(pinned + counts_at);
  Result<gpu::DeviceEvent> event = gpu::DeviceEvent::record(scratch.context(), stream);
  if (event.ok()) is_sampled_ = std::move(*event);
  return event.status();
}

Status DeviceClassTables::choose() {
  SPARCL_RETURN_IF_ERROR(is_sampled_.wait());
  std::size_t next = 0;  // regions are asked for in order
  const auto take = [&](std::uint64_t, std::uint64_t) {
    codec::ClassSample sample;
    const kernels::ClassSampleCounts& counts = counts_[next];
    for (unsigned key = 0; key < 256; ++key)
      sample.add(key, counts.elements[key], counts.listed[key], counts.all[key]);
    return sample;
  };
  tables_ = std::make_unique<codec::ClassRegions>(map_, take, false, kRegionBlocks);
  for (; next < regions_.size(); ++next)
    regions_[next].table = tables_->table_for(*codec::superblock_at(map_, regions_[next].first));
  return Status();
}

std::optional<SpanClasses> DeviceClassTables::of(const BlockSpan& span) const {
  const auto after = std::ranges::upper_bound(regions_, span.first_block, {}, &Region::first);
  if (after == regions_.begin()) return std::nullopt;
  const Region& region = *(after - 1);
  const std::uint64_t end = std::min(span.end_block, region.end);
  if (region.table == nullptr || span.first_block >= region.end) return std::nullopt;
  const codec::BlockMap::BlockRun run = map_.run_of(span.first_block);
  const auto whole = [&](std::uint64_t block) {
    return (block - run.first_block) / codec::kSuperBlocks * codec::kSuperBlocks;
  };
  const std::uint64_t first = run.first_block + whole(span.first_block + codec::kSuperBlocks - 1);
  const std::uint64_t last = end == run.end() ? end : run.first_block + whole(end);
  if (last <= first) return std::nullopt;
  return SpanClasses{region.table,
                     {region.table->table, static_cast<std::uint32_t>(region.table->share_bytes),
                      static_cast<std::uint32_t>(first - span.first_block),
                      static_cast<std::uint32_t>(last - span.first_block)}};
}

}  // namespace sparcl::device
