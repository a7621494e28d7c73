#pragma once
// What a state is made of: an ordered list of named tensors, without their bytes.

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
  std::optional<TensorSlice> slice{};  // all that is held of it; nothing: it is held whole
  // Its type in files, if that has no numbers here: datatype is kUint8 then, and it is never a
  // slice.
  std::optional<OpaqueType> opaque{};

  // Of what is held.
  const std::vector<std::uint64_t>& held_shape() const { return slice ? slice->extent : shape; }
  friend bool operator==(const TensorSchema&, const TensorSchema&) = default;
};

// The product of the held shape, or of an opaque type the bytes; an error if elements or bytes pass
// 2^63.
Result<std::uint64_t> element_count(const TensorSchema& tensor);

// As many dimensions as the tensor, and inside of it.
Status check_slice(const TensorSchema& tensor);
// Whether both may stand in one schema: other names, or two slices of one tensor that differ.
Status check_beside(const TensorSchema& tensor, const TensorSchema& other);

// "BF16", or the opaque type's name.
std::string_view file_type(const TensorSchema& tensor);

// "float32 [8, 4]"; of an opaque type "F4 [8, 4]"; of a slice "float32 [2, 4] at [6, 0] of [8, 4]".
std::string describe_kind(const TensorSchema& tensor);

using Schema = std::vector<TensorSchema>;

// The canonical bytes of a schema: equal schemas and no others have equal bytes. Per tensor: name,
// type, shape, each with its length; of a slice its place, too; of an opaque type its name and the
// tensor's bytes.
std::vector<std::byte> serialise(const Schema& schema);

// What a schema may take of memory: a hundred times its bytes without limits.
struct SchemaLimits {
  std::uint64_t tensors = UINT64_MAX;
  std::uint64_t dimensions =
      UINT64_MAX;  // of all tensors; of a slice those of its place and extents, too
};
// The inverse, for hostile bytes: an error unless they are exactly what serialise() writes for a
// valid schema. Unsupported: it is beyond the limits, which are checked before memory is taken.
Result<Schema> parse_schema(std::span<const std::byte> bytes, const SchemaLimits& limits = {});

// What a tensor may be called: valid UTF-8, at least a byte of it.
Status check_tensor_name(std::string_view name);

// Names are fit and unique but for those of slices, which lie inside their tensors, no shape
// overflows, and neither does the sum of the bytes.
Status validate(const Schema& schema);

// Of names, types, shapes and their order: two schemas are equal if and only if (to 2^-128) their
// hashes are.
Hash128 schema_hash(const Schema& schema);
Hash128 schema_hash(std::span<const std::byte> serialised);

// The same of each tensor by itself.
std::vector<std::uint64_t> tensor_hashes(const Schema& schema);

}  // namespace sparcl::model
