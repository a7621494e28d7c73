#pragma once
// The tables of classes of arrays in device memory. The host chooses them from samples that the
// device counts.

#include <memory>
#include <optional>
#include <vector>

#include "kernels/device_class_codec.hpp"
#include "src/codec/class_regions.hpp"
#include "src/device/device_scratch.hpp"
#include "src/device/device_spans.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::device {

// The superblocks of a span that may be coded in classes.
struct SpanClasses {
  const codec::RegionTable* table;
  kernels::DeviceClassSpan span;
};

class DeviceClassTables {
 public:
  // Arrays of other types have no tables. The map outlives it.
  explicit DeviceClassTables(const codec::BlockMap& map);

  // The size in both device memory and pinned memory, aligned to 16 bytes.
  std::size_t bytes() const;
  // Enqueues the samples, inside the device's context. It uses both memories until choose().
  Status sample(DeviceScratch& scratch, std::span<const std::byte* const> base,
                std::span<const std::byte* const> target, std::byte* device, std::byte* pinned,
                void* stream);
  bool is_there() const { return is_sampled_.is_over(); }
  Status choose();

  // nullopt: classes gain nothing there, or no superblock is whole.
  std::optional<SpanClasses> of(const BlockSpan& span) const;

 private:
  // The most blocks of a run with one table: 1 Gi elements. The host needs as long for a choice as
  // a GPU needs to read 1/10 of them.
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
