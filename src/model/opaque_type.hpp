#pragma once
// Data types of safetensors files whose elements sparcl does not interpret as numbers. They are
// compared and sent byte for byte.

#include <cstdint>
#include <string>
#include <string_view>

namespace sparcl::model {

struct OpaqueTypeInfo {
  std::string_view name;   // "F4"
  std::string_view torch;  // PyTorch's name without "torch."
  std::uint8_t bits;       // of an element
};

// The types that the format knows (safetensors 0.8). nullptr: another type, or one with a row in
// src/base/data_type.cpp.
const OpaqueTypeInfo* find_opaque_type(std::string_view name);

constexpr std::size_t kMaxOpaqueName = 32;
// True for a name that a later version of the format may give to a type. It has at most this many
// letters, digits and underscores, and is not the name of a type with numbers here.
bool may_be_opaque_type(std::string_view name);

// The opaque type of a tensor: its elements are its bytes.
struct OpaqueType {
  std::string name;
  std::uint64_t bytes = 0;  // of the tensor

  friend bool operator==(const OpaqueType&, const OpaqueType&) = default;
};

}  // namespace sparcl::model
