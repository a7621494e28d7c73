#include "src/sparse/selection/support_transfer.hpp"

#include <algorithm>
#include <cstring>

#include "src/device/memory_layout.hpp"

namespace sparcl::sparse {
namespace {

// Heuristic: some MiB a chunk, so that copies run at the link's speed and launches are few. Blocks
// of a support are not divided.
constexpr std::uint64_t kChunkEntries = 262'144;
constexpr std::uint64_t kChunkParts = 16'384;

}  // namespace

SupportTransfer::Layout SupportTransfer::layout_of(std::size_t parts, std::size_t entries) {
  const std::size_t positions = device::padded((parts + 1) * sizeof(kernels::MaskPart));
  const std::size_t values = positions + device::padded(entries * sizeof(std::uint16_t));
  return {positions, values, values + device::padded(entries * 8)};
}

std::size_t SupportTransfer::memory_bytes(std::uint64_t entries) {
  return 2 * layout_of(std::min(entries, kChunkParts), std::min(entries, kChunkEntries)).bytes;
}

SupportTransfer::SupportTransfer(const kernels::DeviceKernelSet& kernels, void* context,
                                 void* stream, std::uint64_t max_entries, std::byte* on_device,
                                 std::byte* pinned)
    : kernels_(kernels), context_(context), stream_(stream) {
  const std::size_t half = memory_bytes(max_entries) / 2;
  halves_[0] = {on_device, pinned, {}};
  halves_[1] = {on_device + half, pinned + half, {}};
}

Status SupportTransfer::gather(const Support& support, const void* array, std::size_t width,
                               std::byte* values) {
  return move(Kind::kGather, support, width, values, const_cast<void*>(array));
}

Status SupportTransfer::take(const Support& support, void* array, std::size_t width,
                             std::byte* values) {
  return move(Kind::kTake, support, width, values, array);
}

Status SupportTransfer::put(const Support& support, const std::byte* values, std::size_t width,
                            void* array) {
  return move(Kind::kPut, support, width, const_cast<std::byte*>(values), array);
}

Status SupportTransfer::move(Kind kind, const Support& support, std::size_t width,
                             std::byte* values, void* array) {
  const gpu::DeviceScope inside(context_);
  SPARCL_RETURN_IF_ERROR(inside.status());
  unsigned turn = 0;
  for (std::size_t block = 0; block < support.blocks().size(); ++turn) {
    Half& half = halves_[turn % 2];
    SPARCL_RETURN_IF_ERROR(drain(half));
    const Chunk chunk = fill(half, support, width, block);
    if (kind == Kind::kPut)
      std::memcpy(half.pinned + chunk.layout.values, values + chunk.first, chunk.bytes);
    SPARCL_RETURN_IF_ERROR(enqueue(kind, half, chunk, width, values, array));
  }
  SPARCL_RETURN_IF_ERROR(drain(halves_[turn % 2]));
  return drain(halves_[(turn + 1) % 2]);
}

// The places of the next blocks, from `block` on.
SupportTransfer::Chunk SupportTransfer::fill(const Half& half, const Support& support,
                                             std::size_t width, std::size_t& block) const {
  const std::span<const Support::Block> blocks = support.blocks();
  const std::size_t begin = block;
  std::size_t entries = 0;
  while (block < blocks.size() && block - begin < kChunkParts &&
         (block == begin || entries + blocks[block].count <= kChunkEntries))
    entries += blocks[block++].count;
  const std::size_t parts = block - begin;
  Chunk chunk{{}, blocks[begin].first * width, entries * width, layout_of(parts, entries)};
  auto* const part = reinterpret_cast<kernels::MaskPart*>(half.pinned);
  for (std::size_t i = 0; i < parts; ++i)
    part[i] = {blocks[begin + i].base >> 16, blocks[begin + i].first - blocks[begin].first};
  part[parts] = {0, entries};
  std::memcpy(half.pinned + chunk.layout.positions, support.positions(blocks[begin]),
              entries * sizeof(std::uint16_t));
  chunk.places.count = entries;
  chunk.places.parts = reinterpret_cast<const kernels::MaskPart*>(half.on_device);
  chunk.places.part_count = parts;
  chunk.places.positions =
      reinterpret_cast<const std::uint16_t*>(half.on_device + chunk.layout.positions);
  return chunk;
}

Status SupportTransfer::enqueue(Kind kind, Half& half, const Chunk& chunk, std::size_t width,
                                std::byte* values, void* array) {
  const std::size_t at = chunk.layout.values;
  const bool puts = kind == Kind::kPut;
  SPARCL_RETURN_IF_ERROR(
      gpu::enqueue_copy(half.on_device, half.pinned, puts ? at + chunk.bytes : at, stream_));
  if (puts) {
    SPARCL_RETURN_IF_ERROR(
        kernels_.scatter_mask(chunk.places, half.on_device + at, width, array, stream_));
  } else {
    SPARCL_RETURN_IF_ERROR(
        kernels_.gather_mask(chunk.places, array, width, half.on_device + at, stream_));
    SPARCL_RETURN_IF_ERROR(
        gpu::enqueue_copy(half.pinned + at, half.on_device + at, chunk.bytes, stream_));
  }
  if (kind == Kind::kTake) {
    SPARCL_RETURN_IF_ERROR(gpu::enqueue_zeros(half.on_device + at, chunk.bytes, stream_));
    SPARCL_RETURN_IF_ERROR(
        kernels_.scatter_mask(chunk.places, half.on_device + at, width, array, stream_));
  }
  SPARCL_ASSIGN_OR_RETURN(gpu::DeviceEvent event, gpu::DeviceEvent::record(context_, stream_));
  half.event = std::move(event);
  half.values = values + chunk.first;
  half.arrived = half.pinned + at;
  half.arriving_bytes = puts ? 0 : chunk.bytes;
  return Status();
}

Status SupportTransfer::drain(Half& half) {
  const gpu::DeviceEvent event = std::move(half.event);
  const std::size_t bytes = std::exchange(half.arriving_bytes, 0);
  SPARCL_RETURN_IF_ERROR(event.wait());
  if (bytes > 0) std::memcpy(half.values, half.arrived, bytes);
  return Status();
}

}  // namespace sparcl::sparse
