#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace sparcl {

// Numbered as sparclDataType_t, which numbers 0-11 as ncclDataType_t does.
enum class DataType : std::uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
  kInt16 = 32,
  kUint16 = 33,
  kBool = 34,
};

struct DataTypeInfo {
  DataType type;
  std::string_view name;         // "bfloat16"
  std::string_view safetensors;  // "BF16"
  std::uint8_t bytes;            // of one element: 1, 2, 4 or 8
  bool is_float;
};

// nullptr for a number that names no data type: callers at the border turn that into an error.
const DataTypeInfo* find_data_type(int number);
const DataTypeInfo* find_safetensors_type(std::string_view name);

// For types that are known to be valid.
const DataTypeInfo& info(DataType type);
inline std::size_t element_bytes(DataType type) { return info(type).bytes; }

}  // namespace sparcl
