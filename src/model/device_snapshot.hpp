#pragma once
// The snapshot of a state whose tensors are all in one GPU's memory. The snapshot is in that
// memory, too, so that only changes are transferred.

#include <memory>
#include <vector>

#include "src/codec/block_map.hpp"
#include "src/gpu/device_stream.hpp"
#include "src/model/snapshot.hpp"

namespace sparcl::model {

// Shared with work that a stream may still do with it.
class DeviceSnapshot {
 public:
  // Makes room for all arrays; the contents are undefined. OutOfMemory also if the program would be
  // left with too little of the GPU's memory.
  static Result<std::shared_ptr<const DeviceSnapshot>> make(const codec::BlockMap& map,
                                                            void* context);

  void* context() const { return memory_.context(); }
  // nullptr: an empty array.
  std::span<std::byte* const> arrays() const { return arrays_; }

  // Both wait for the stream. map: the one that it was made with.
  Status read(const codec::BlockMap& map, Snapshot& into, void* stream) const;
  Status write(const codec::BlockMap& map, const Snapshot& from, void* stream) const;

 private:
  gpu::DeviceBuffer memory_;
  std::vector<std::byte*> arrays_;
};

}  // namespace sparcl::model
