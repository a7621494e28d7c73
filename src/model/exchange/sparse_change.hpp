#pragma once
// What changed, as all formats of other programs have it: positions and new values, tensor by tensor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/base/status.hpp"
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
  Attachment attachment;  // what a delta of ours held besides: other programs pass it over

  std::uint64_t changed() const;
};

// What turns `base` into `target`, two states of one schema.
SparseChange compare_tensors(const Schema& schema, std::span<const std::byte* const> base, std::span<const std::byte* const> target,
                             const kernels::KernelSet& kernels);

// No tensor comes twice (out of two files of a folder).
Status check_names(const SparseChange& change);

// That, and every tensor is one of the schema's, of its type (and shape, where known), and no index is past its end. Fills the shapes.
Status match_schema(const Schema& schema, SparseChange& change);

// After match_schema(): writes the values to their places.
void apply_tensors(const SparseChange& change, const Schema& schema, std::span<std::byte* const> tensors);

// Strictly ascending? Says which index is not, of which tensor.
Status check_ascending(const TensorChange& tensor);

}  // namespace sparcl::model
