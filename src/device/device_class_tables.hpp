#pragma once
// The tables of classes of arrays in device memory: chosen on the host, from samples that are
// counted on the device.

#include <memory>
#include <optional>
#include <vector>

#include "kernels/device_class_codec.hpp"
#include "src/codec/class_regions.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// Of a span the superblocks that may be coded in classes.
struct SpanClasses {
  const codec::RegionTable* table;
  kernels::DeviceClassSpan span;
};

class DeviceClassTables {
 public:
  // Arrays of other types have none. The map outlives it.
  explicit DeviceClassTables(const codec::BlockMap& map);

  // Of both of the device's memory and pinned memory, aligned to 16 bytes.
  std::size_t bytes() const;
  // Enqueues the samples, inside the device's context. Both memories are its own until choose().
  Status sample(DeviceScratch& scratch, std::span<const std::byte* const> base,
                std::span<const std::byte* const> target, std::byte* device, std::byte* pinned,
                void* stream);
  bool is_there() const { return is_sampled_.is_over(); }
  Status choose();

  // Nothing: classes gain nothing there, or no superblock is whole.
  std::optional<SpanClasses> of(const BlockSpan& span) const;

 private:
  // Blocks of a run with one table at most: 1 Gi elements, as a choice takes the host as long as a
  // GPU takes to read 1/10 of them.
  static constexpr std::uint64_t kRegionBlocks = 64 * codec::ClassRegions::kRegionBlocks;

  struct Region {
    std::uint64_t first, end;
    const codec::RegionTable* table = nullptr;
  };
  struct Part {
    codec::SamplePart part;
    std::uint32_t region;
  };

  const codec::BlockMap& map_;
  std::vector<Region> regions_;
  std::vector<Part> parts_;
  const kernels::ClassSampleCounts* counts_ = nullptr;
  gpu::DeviceEvent is_sampled_;
  std::unique_ptr<codec::ClassRegions> tables_;
};

}  // namespace sparcl::device
