#include "src/base/data_type.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "include/sparcl/sparcl.h"

namespace sparcl {
namespace {

TEST(DataType, HasARowForEachPublicTypeWithItsNumber) {
  struct Row {
    sparclDataType_t number;
    DataType type;
    std::size_t bytes;
    const char* safetensors;
    bool is_float;
  };
  const Row rows[] = {
      {sparclInt8, DataType::kInt8, 1, "I8", false},
      {sparclUint8, DataType::kUint8, 1, "U8", false},
      {sparclInt32, DataType::kInt32, 4, "I32", false},
      {sparclUint32, DataType::kUint32, 4, "U32", false},
      {sparclInt64, DataType::kInt64, 8, "I64", false},
      {sparclUint64, DataType::kUint64, 8, "U64", false},
      {sparclFloat16, DataType::kFloat16, 2, "F16", true},
      {sparclFloat32, DataType::kFloat32, 4, "F32", true},
      {sparclFloat64, DataType::kFloat64, 8, "F64", true},
      {sparclBfloat16, DataType::kBfloat16, 2, "BF16", true},
      {sparclFloat8e4m3, DataType::kFloat8e4m3, 1, "F8_E4M3", true},
      {sparclFloat8e5m2, DataType::kFloat8e5m2, 1, "F8_E5M2", true},
      {sparclInt16, DataType::kInt16, 2, "I16", false},
      {sparclUint16, DataType::kUint16, 2, "U16", false},
      {sparclBool, DataType::kBool, 1, "BOOL", false},
  };
  for (const Row& row : rows) {
    const DataTypeInfo* found = find_data_type(row.number);
    ASSERT_NE(found, nullptr) << row.safetensors;
    EXPECT_EQ(found->type, row.type);
    EXPECT_EQ(found->bytes, row.bytes);
    EXPECT_EQ(found->is_float, row.is_float);
    EXPECT_EQ(found->safetensors, row.safetensors);
    EXPECT_EQ(find_safetensors_type(row.safetensors), found);
    EXPECT_EQ(&info(row.type), found);
    EXPECT_EQ(element_bytes(row.type), row.bytes);
  }
}

TEST(DataType, KnowsNoOtherNumber) {
  const std::set<int> known = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 32, 33, 34};
  for (int number = -300; number <= 300; ++number) {
    EXPECT_EQ(find_data_type(number) != nullptr, known.count(number) == 1) << number;
  }
  EXPECT_EQ(find_data_type(256 + 7), nullptr) << "a number must not be cut to a byte";
}

TEST(DataType, KnowsNoOtherName) {
  for (const char* name : {"", "bf16", "BF16 ", "F8", "F4", "C64", "BOOLEAN"})
    EXPECT_EQ(find_safetensors_type(name), nullptr) << name;
}

}  // namespace
}  // namespace sparcl
