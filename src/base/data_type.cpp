#include "src/base/data_type.hpp"

#include <array>

namespace sparcl {
namespace {

constexpr std::array kTypes{
    DataTypeInfo{DataType::kInt8, "int8", "I8", 1, false},
    DataTypeInfo{DataType::kUint8, "uint8", "U8", 1, false},
    DataTypeInfo{DataType::kInt32, "int32", "I32", 4, false},
    DataTypeInfo{DataType::kUint32, "uint32", "U32", 4, false},
    DataTypeInfo{DataType::kInt64, "int64", "I64", 8, false},
    DataTypeInfo{DataType::kUint64, "uint64", "U64", 8, false},
    DataTypeInfo{DataType::kFloat16, "float16", "F16", 2, true},
    DataTypeInfo{DataType::kFloat32, "float32", "F32", 4, true},
    DataTypeInfo{DataType::kFloat64, "float64", "F64", 8, true},
    DataTypeInfo{DataType::kBfloat16, "bfloat16", "BF16", 2, true},
    DataTypeInfo{DataType::kFloat8e4m3, "float8e4m3", "F8_E4M3", 1, true},
    DataTypeInfo{DataType::kFloat8e5m2, "float8e5m2", "F8_E5M2", 1, true},
    DataTypeInfo{DataType::kInt16, "int16", "I16", 2, false},
    DataTypeInfo{DataType::kUint16, "uint16", "U16", 2, false},
    DataTypeInfo{DataType::kBool, "bool", "BOOL", 1, false},
};

}  // namespace

const DataTypeInfo* find_data_type(int number) {
  for (const DataTypeInfo& row : kTypes) {
    if (static_cast<int>(row.type) == number) return &row;
  }
  return nullptr;
}

const DataTypeInfo* find_safetensors_type(std::string_view name) {
  for (const DataTypeInfo& row : kTypes) {
    if (row.safetensors == name) return &row;
  }
  return nullptr;
}

const DataTypeInfo& info(DataType type) {
  const DataTypeInfo* row = find_data_type(static_cast<int>(type));
  return row ? *row : kTypes[1];
}

}  // namespace sparcl
