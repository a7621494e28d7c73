#pragma once
// A contribution's entries as bytes: a part of all elements (src/sparse/parts), coded where that is
// shorter. Its entries are what the worker selected, rounded to the wire type.

#include <cstdint>
#include <span>

#include "src/base/status.hpp"
#include "src/elastic/worker_messages.hpp"
#include "src/sparse/parts/entry_part.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::elastic {

struct Packed {
  Offered offered;  // but for round and weight
  Buffer bytes;
};

// values: of the indices, which ascend, rounded to the wire type (round_to_wire()).
Result<Packed> pack(BufferSource& buffers, const kernels::KernelSet& kernels,
                    const sparse::BlockRun& run, const sparse::WireType& wire,
                    std::span<const std::uint64_t> indices, const std::byte* values);

// A part of the run, with values in the form of `offered`, of which also is_narrow is read.
Result<Packed> pack_part(BufferSource& buffers, const kernels::KernelSet& kernels,
                         const sparse::BlockRun& run, const Offered& offered, Buffer part);

DataType value_type(const Offered& offered);  // of the part's values

// Bytes that a contribution of all `count` elements may have.
std::uint64_t max_contribution_bytes(const sparse::BlockRun& run, std::uint64_t count);

// The root of the tree over leaves of 1 MiB, as of updates (src/model/stream_digest.hpp): bytes are
// hashed as they come, a chunk at a time.
Result<model::Digest256> digest_of(std::span<const std::byte> bytes);

// The part, of untrusted bytes whose digest has been checked. Corrupt: it is no part of `count`
// elements.
Result<Buffer> unpack_checked(BufferSource& buffers, const kernels::KernelSet& kernels,
                              const sparse::BlockRun& run, std::uint64_t count,
                              const Offered& offered, const Buffer& bytes);
// The same with the digest.
Result<Buffer> unpack(BufferSource& buffers, const kernels::KernelSet& kernels,
                      const sparse::BlockRun& run, std::uint64_t count, const Offered& offered,
                      const Buffer& bytes);

// The values of a valid part, as float32.
std::vector<float> values_of(const kernels::KernelSet& kernels, const sparse::BlockRun& run,
                             std::span<const std::byte> part, DataType type);
// The same with their indices.
struct Entries {
  std::vector<std::uint64_t> indices;
  std::vector<float> values;
};
Entries entries_of(const kernels::KernelSet& kernels, const sparse::BlockRun& run,
                   std::span<const std::byte> part, DataType type);

}  // namespace sparcl::elastic
