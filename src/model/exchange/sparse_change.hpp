#pragma once
// A change as the formats of all other programs have it: positions and new values, tensor by
// tensor.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  std::optional<std::vector<std::uint64_t>> shape;  // if the format has it
  std::vector<std::uint64_t> indices;               // of the flattened tensor, strictly ascending
  std::vector<std::byte> values;                    // one for each index

  friend bool operator==(const TensorChange&, const TensorChange&) = default;
};

struct SparseChange {
  std::vector<TensorChange> tensors;  // in the order of the file; none without a change
  std::uint64_t base_version = 0;
  std::uint64_t target_version = 0;
  std::uint64_t folder_base_version = 0;  // the names of the folder that it was read from, for
  std::uint64_t folder_version = 0;       // layouts that must have names
  std::optional<Hash128> base_hash,
      target_hash;        // the states before and after, if the file names them
  Attachment attachment;  // the other contents of one of our deltas; other programs ignore it

  std::uint64_t changed() const;
  const TensorChange* find(std::string_view name) const;  // nullptr: it has not changed
};

// Adds the elements that differ from `first` on: `count` of each state at these addresses.
void compare_values(std::uint64_t first, std::uint64_t count, const std::byte* before,
                    const std::byte* after, const kernels::KernelSet& kernels,
                    TensorChange& change);

// The change from `base` to `target`, two states of one schema. Unsupported: a tensor of an opaque
// type has changed.
Result<SparseChange> compare_tensors(const Schema& schema, const codec::ArrayInput& base,
                                     const codec::ArrayInput& target,
                                     const kernels::KernelSet& kernels);

// No tensor is present twice (for example in two files of a folder).
Status check_names(const SparseChange& change);

// As check_names(). Also checks that every tensor is in the schema with the same type (and shape,
// if known), and that no index is past its end. Fills the shapes.
Status match_schema(const Schema& schema, SparseChange& change);

// After match_schema(): writes the values to their positions. Returns how many were equal already.
std::uint64_t apply_tensors(const SparseChange& change, const Schema& schema,
                            std::span<std::byte* const> tensors);

// Are the indices strictly ascending? An error names the index and the tensor.
Status check_ascending(const TensorChange& tensor);

}  // namespace sparcl::model
