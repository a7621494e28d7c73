#pragma once
// The tensors that are published or kept, as this layer sees them.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_place.hpp"
#include "src/codec/update.hpp"

namespace sparcl {
class WorkerPool;
}

namespace sparcl::replication {

// The arrays are the caller's. What it points to outlives the publisher or subscriber.
struct ReplicatedState {
  const codec::BlockMap* map = nullptr;
  Hash128 schema_hash;
  std::span<const std::byte> schema;  // its bytes, as model::serialise() writes them; a publisher's
  std::span<std::byte* const> arrays;
  codec::ArrayName array_name;  // for errors; may be empty
  const kernels::KernelSet* kernels = nullptr;
  bool verify_all = false;        // a replica hashes all that it holds at each update, not only what changes
  WorkerPool* workers = nullptr;  // shares the work of coding; may be nullptr

  std::vector<const std::byte*> readable() const { return {arrays.begin(), arrays.end()}; }
  Hash128 hash() const { return codec::state_hash(*map, readable(), schema_hash, *kernels); }
};

}  // namespace sparcl::replication
