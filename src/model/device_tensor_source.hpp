#pragma once
// Arrays in device memory, for code that encodes or copies a state. They are read in chunks through
// pinned memory, and the next chunks are prefetched while one is used.

#include <memory>
#include <mutex>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::model {

class DeviceTensorSource final : public codec::ArraySource {
 public:
  // The pinned memory: heuristic, for the link's speed, and some for each thread that reads. Less
  // if the arrays are smaller.
  struct Room {
    std::size_t chunk_bytes = std::size_t{2} << 20;
    std::size_t chunks = 8;
  };

  // arrays: one for each array of the map, of any GPUs; nullptr if it is not in device memory, and
  // so is not read here.
  static Result<std::unique_ptr<DeviceTensorSource>> create(const codec::BlockMap& map,
                                                            std::vector<const std::byte*> arrays,
                                                            const Room& room);
  static Result<std::unique_ptr<DeviceTensorSource>> create(const codec::BlockMap& map,
                                                            std::vector<const std::byte*> arrays) {
    return create(map, std::move(arrays), Room{});
  }
  ~DeviceTensorSource() override;

  // Starts a pass. It reads the values that the arrays have after the work enqueued in the stream
  // (nullptr: the default stream of each GPU).
  void begin(void* stream);
  // Ends the pass; the arrays may change afterwards. Returns the first error of its reads.
  Status end();

  // The context of array `i`; nullptr: it is not in device memory.
  void* context(std::size_t i) const { return contexts_[i]; }
  // The contexts of all arrays.
  std::vector<void*> contexts() const;

  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;
  Status status() const override;

 private:
  // A part of the pinned memory, for a chunk that it has or will have.
  struct Slot {
    std::uint64_t chunk = kNone;  // its number among those of all arrays
    gpu::DeviceEvent event;
    std::uint64_t used_at = 0;
    int readers = 0;
  };
  struct Part {  // a part of an array, in one chunk
    std::size_t array;
    std::size_t begin;
    std::size_t bytes;
  };
  static constexpr std::uint64_t kNone = UINT64_MAX;
  static constexpr int kAhead =
      2;  // chunks in flight beyond the one that is read: one being copied, one queued

  DeviceTensorSource(const codec::BlockMap& map, std::vector<const std::byte*> arrays,
                     const Room& room);
  Part part_of(std::uint64_t chunk) const;
  Status read_part(std::uint64_t chunk, const Part& wanted, std::byte* out) const;
  Slot* find(std::uint64_t chunk) const;
  Slot* oldest_free() const;
  Status fetch(std::uint64_t chunk, Slot& slot) const;
  std::byte* memory_of(const Slot& slot) const;
  void settle();

  const codec::BlockMap& map_;
  std::vector<const std::byte*> arrays_;
  std::vector<void*> contexts_;
  std::vector<std::uint64_t> first_chunk_;  // of each array, and the end of the last
  Room room_;
  gpu::PinnedBuffer memory_;

  mutable std::mutex mutex_;  // guards all below
  void* stream_ = nullptr;
  bool is_open_ = false;  // work may be in flight
  mutable Status error_;
  mutable std::vector<Slot> slots_;
  mutable std::uint64_t clock_ = 0;
};

}  // namespace sparcl::model
