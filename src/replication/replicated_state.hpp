#pragma once
// The tensors that are published or kept, as this layer sees them.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/block_place.hpp"
#include "src/codec/update.hpp"
#include "src/model/stream_digest.hpp"

namespace sparcl {
class WorkerPool;
}
namespace sparcl::codec {
class ChangeFinder;
}
namespace sparcl::model {
class DeviceTensors;
}

namespace sparcl::replication {

// The arrays are the caller's. All that it points to outlives the publisher or subscriber.
struct ReplicatedState {
  const codec::BlockMap* map = nullptr;
  Hash128 schema_hash;
  std::span<const std::byte> schema;  // its bytes, as model::serialise() writes them
  model::Digest256 schema_digest{};   // SHA-256 of these bytes, for model::StateIdentity
  std::span<std::byte* const> arrays;
  const codec::ArraySource* source = nullptr;  // of arrays that are nullptr: a publisher's alone
  codec::ChangeFinder* finder =
      nullptr;  // of a publisher, all of whose arrays come from the source; may be nullptr
  bool found_in_classes = false;  // what the finder finds may be coded in classes, although these
                                  // need a read of all arrays on the host
  codec::ArrayName array_name;    // for errors; may be empty
  const kernels::KernelSet* kernels = nullptr;
  bool verify_all =
      false;  // a replica hashes all that it holds at each update, not only what changes
  model::DeviceTensors* device = nullptr;  // of a replica: whose mirror the arrays are; nullptr:
                                           // they are the tensors themselves
  WorkerPool* workers = nullptr;           // shares the work of coding; may be nullptr

  std::vector<const std::byte*> readable() const { return {arrays.begin(), arrays.end()}; }
  // The state hash of arrays of this map that lie in memory.
  Hash128 hash_of(std::span<std::byte* const> held) const {
    return codec::state_hash(*map, std::vector<const std::byte*>(held.begin(), held.end()),
                             schema_hash, *kernels);
  }
  Hash128 hash() const { return hash_of(arrays); }
};

}  // namespace sparcl::replication
