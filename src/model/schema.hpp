#pragma once
// What a state is made of: an ordered list of named tensors, without their bytes.

#include <cstdint>
#include <string>
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

// Of names, types, shapes and their order: two schemas are equal if and only if (to 2^-128) their hashes are.
Hash128 schema_hash(const Schema& schema);

}  // namespace sparcl::model
