#pragma once
// What has changed from one version to the next, as chunks of both forms.

#include <sparcl_gateway.pb.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/model/version_update.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::gateway {

struct ChunkList {
  std::vector<v1::Chunk> chunks;  // without their index, which is that of an offer
  std::uint64_t bytes = 0;        // of positions and values
};

struct VersionStep {
  model::HeldVersion base, target;
  ChunkList plain, coded;
  std::uint64_t changed = 0;  // elements
  // It has left the shelf: from this time on (net::monotonic_seconds()) no session may read it.
  mutable std::atomic<double> revoked_at{std::numeric_limits<double>::infinity()};

  const ChunkList& of(v1::Form form) const { return form == v1::CODED ? coded : plain; }
  std::uint64_t bytes() const { return plain.bytes + coded.bytes; }
};
using VersionStepRef = std::shared_ptr<const VersionStep>;

struct StepEnds {
  model::HeldVersion base, target;
};

// The step from the arrays `before`, which hold the base, to what the memory holds. nullptr: the
// positions and values have more bytes than all tensors, so that an anchor is shorter. Corrupt: the
// memory does not hold the target.
Result<VersionStepRef> make_step(const tool::ModelMemory& memory,
                                 std::span<std::byte* const> before, const StepEnds& ends,
                                 std::uint64_t chunk_bytes);

// Writes the new values into arrays of the same tensors.
void write_step(const VersionStep& step, const model::Schema& schema,
                std::span<std::byte* const> arrays);

// Fills in the digest. SystemError: OpenSSL refuses.
Status seal(v1::Chunk& chunk);

// Bytes of a position in a tensor of so many elements.
std::size_t position_bytes(std::uint64_t elements);

}  // namespace sparcl::gateway
