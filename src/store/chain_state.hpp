#pragma once
// The tensors that are published to a chain, or restored from one, as this room sees them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_window.hpp"

namespace sparcl {
class WorkerPool;
}

namespace sparcl::store {

// The arrays are the caller's. All that it points to outlives a writer.
struct ChainState {
  const codec::BlockMap* map = nullptr;
  std::span<const std::byte> schema;  // its bytes, as model::serialise() writes them
  Hash128 schema_hash;
  std::span<std::byte* const> arrays;
  const codec::ArraySource* source = nullptr;  // of arrays that are nullptr: a writer's alone
  const kernels::KernelSet* kernels = nullptr;
  WorkerPool* workers = nullptr;  // shares the work of coding; may be nullptr
  // Of a reader: the arrays hold nothing that is to be kept. After an error they hold anything.
  bool may_tear = false;
  // Of a reader: memory for a copy of the arrays, which saves decoding an anchor twice. nullopt:
  // half of what the machine has to spare.
  std::optional<std::uint64_t> spare_bytes;
  // Of a reader: the arrays hold these blocks only (stored_part.hpp); nullptr: all.
  const codec::BlockWindow* window = nullptr;
};

}  // namespace sparcl::store
