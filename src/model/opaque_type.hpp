#pragma once
// Data types of safetensors files whose elements are no numbers to sparcl: they are compared and
// sent byte for byte.

#include <cstdint>
#include <string>
#include <string_view>

namespace sparcl::model {

struct OpaqueTypeInfo {
  std::string_view name;   // "F4"
  std::string_view torch;  // PyTorch's name without "torch."
  std::uint8_t bits;       // of an element
};

// Those that the format knows (safetensors 0.8). nullptr: another one, or one with a row in
// src/base/data_type.cpp.
const OpaqueTypeInfo* find_opaque_type(std::string_view name);

constexpr std::size_t kMaxOpaqueName = 32;
// What a later version of the format may call a type: up to so many letters, digits and
// underscores, and no type that has numbers here.
bool may_be_opaque_type(std::string_view name);

// Of a tensor: its elements are as many bytes as it has.
struct OpaqueType {
  std::string name;
  std::uint64_t bytes = 0;  // of the tensor

  friend bool operator==(const OpaqueType&, const OpaqueType&) = default;
};

}  // namespace sparcl::model
