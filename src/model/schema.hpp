#pragma once
// What a state is made of: an ordered list of named tensors, without their bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/checksum.hpp"
#include "src/base/data_type.hpp"
#include "src/base/status.hpp"

namespace sparcl::model {

struct TensorSchema {
  std::string name;
  DataType datatype = DataType::kUint8;
  std::vector<std::uint64_t> shape;  // row-major; {} is a scalar

  friend bool operator==(const TensorSchema&, const TensorSchema&) = default;
};

// The product of the shape; an error if elements or bytes pass 2^63.
Result<std::uint64_t> element_count(const TensorSchema& tensor);

using Schema = std::vector<TensorSchema>;

// The canonical bytes of a schema: equal schemas and no others have equal bytes. Per tensor: name, type, shape, each with its
// length.
std::vector<std::byte> serialise(const Schema& schema);

// The inverse, for hostile bytes: an error unless they are exactly what serialise() writes for a valid schema.
Result<Schema> parse_schema(std::span<const std::byte> bytes);

// What a tensor may be called: valid UTF-8, at least a byte of it.
Status check_tensor_name(std::string_view name);

// Names are fit and unique, no shape overflows, and neither does the sum of the bytes.
Status validate(const Schema& schema);

// Of names, types, shapes and their order: two schemas are equal if and only if (to 2^-128) their hashes are.
Hash128 schema_hash(const Schema& schema);

// The same of each tensor by itself.
std::vector<std::uint64_t> tensor_hashes(const Schema& schema);

}  // namespace sparcl::model
