#pragma once
// The schema of a state: an ordered list of named tensors, without their bytes.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"
#include "src/model/opaque_type.hpp"

namespace sparcl::model {

// A part of a tensor: in each dimension `extent` indices from `begin` on.
struct TensorSlice {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint64_t> extent;

  friend bool operator==(const TensorSlice&, const TensorSlice&) = default;
};

struct TensorSchema {
  std::string name;
  DataType datatype = DataType::kUint8;
  std::vector<std::uint64_t> shape;    // row-major; {} is a scalar
  std::optional<TensorSlice> slice{};  // the part that is held; nullopt: the whole tensor is held
  // Its type in files if sparcl has no numbers for it: then datatype is kUint8, and the tensor is
  // never a slice.
  std::optional<OpaqueType> opaque{};

  // The shape of the held part.
  const std::vector<std::uint64_t>& held_shape() const { return slice ? slice->extent : shape; }
  friend bool operator==(const TensorSchema&, const TensorSchema&) = default;
};

// The product of the held shape; for an opaque type the bytes. An error if elements or bytes exceed
// 2^63.
Result<std::uint64_t> element_count(const TensorSchema& tensor);

// The slice has as many dimensions as the tensor, and lies inside it.
Status check_slice(const TensorSchema& tensor);
// Whether both may be in one schema: they have different names, or are two different slices of one
// tensor.
Status check_beside(const TensorSchema& tensor, const TensorSchema& other);

// "BF16", or the opaque type's name.
std::string_view file_type(const TensorSchema& tensor);

// "float32 [8, 4]"; for an opaque type "F4 [8, 4]"; for a slice "float32 [2, 4] at [6, 0] of [8,
// 4]".
std::string describe_kind(const TensorSchema& tensor);

using Schema = std::vector<TensorSchema>;

// The canonical bytes of a schema: two schemas are equal exactly if their bytes are. For each
// tensor: name, type, shape, each with its length. For a slice also its position; for an opaque
// type also its name and the tensor's bytes.
std::vector<std::byte> serialise(const Schema& schema);

// Memory limits of a schema. Without limits it may take a hundred times its bytes.
struct SchemaLimits {
  std::uint64_t tensors = UINT64_MAX;
  std::uint64_t dimensions =
      UINT64_MAX;  // of all tensors; for a slice including its position and extents
};
// The inverse, for untrusted bytes: an error unless they are exactly the output of serialise() for
// a valid schema. Unsupported: it is beyond the limits, which are checked before memory is taken.
Result<Schema> parse_schema(std::span<const std::byte> bytes, const SchemaLimits& limits = {});

// Tensor names are valid UTF-8 of at least one byte.
Status check_tensor_name(std::string_view name);

// Checks that names are valid and unique, except for slices of one tensor. Slices lie inside their
// tensors, no shape overflows, and neither does the sum of the bytes.
Status validate(const Schema& schema);

// A hash of names, types, shapes and their order. Two schemas are equal if and only if (to 2^-128)
// their hashes are.
Hash128 schema_hash(const Schema& schema);
Hash128 schema_hash(std::span<const std::byte> serialised);

// The same for each tensor alone.
std::vector<std::uint64_t> tensor_hashes(const Schema& schema);

}  // namespace sparcl::model
