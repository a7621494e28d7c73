#pragma once
// What changed, as all formats of other programs have it: positions and new values, tensor by
// tensor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/checksum.hpp"
#include "src/base/status.hpp"
#include "src/codec/array_source.hpp"
#include "src/model/attachment.hpp"
#include "src/model/schema.hpp"

namespace sparcl::model {

struct TensorChange {
  std::string name;
  DataType datatype = DataType::kUint8;
  std::optional<std::vector<std::uint64_t>> shape;  // where the format says it
  std::vector<std::uint64_t> indices;               // of the flattened tensor, strictly ascending
  std::vector<std::byte> values;                    // one an index

  friend bool operator==(const TensorChange&, const TensorChange&) = default;
};

struct SparseChange {
  std::vector<TensorChange> tensors;  // in the order of the file; none without a change
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  std::optional<Hash128> base_hash,
      target_hash;        // the states before and after, where the file says them
  Attachment attachment;  // what a delta of ours held besides: other programs pass it over

  std::uint64_t changed() const;
};

// What turns `base` into `target`, two states of one schema. Unsupported: a tensor of an opaque
// type has changed.
Result<SparseChange> compare_tensors(const Schema& schema, const codec::ArrayInput& base,
                                     const codec::ArrayInput& target,
                                     const kernels::KernelSet& kernels);

// No tensor comes twice (out of two files of a folder).
Status check_names(const SparseChange& change);

// That, and every tensor is one of the schema's, of its type (and shape, where known), and no index
// is past its end. Fills the shapes.
Status match_schema(const Schema& schema, SparseChange& change);

// After match_schema(): writes the values to their places. Returns how many were there already.
std::uint64_t apply_tensors(const SparseChange& change, const Schema& schema,
                            std::span<std::byte* const> tensors);

// Strictly ascending? Says which index is not, of which tensor.
Status check_ascending(const TensorChange& tensor);

}  // namespace sparcl::model
