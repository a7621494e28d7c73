#include "src/model/opaque_type.hpp"

#include <algorithm>
#include <array>

#include "src/base/data_type.hpp"

namespace sparcl::model {
namespace {

constexpr std::array kOpaqueTypes{OpaqueTypeInfo{"F4", "float4_e2m1fn_x2", 4},
                                  OpaqueTypeInfo{"F6_E2M3", "float6_e2m3fn", 6},
                                  OpaqueTypeInfo{"F6_E3M2", "float6_e3m2fn", 6},
                                  OpaqueTypeInfo{"F8_E8M0", "float8_e8m0fnu", 8},
                                  OpaqueTypeInfo{"F8_E4M3FNUZ", "float8_e4m3fnuz", 8},
                                  OpaqueTypeInfo{"F8_E5M2FNUZ", "float8_e5m2fnuz", 8},
                                  OpaqueTypeInfo{"C64", "complex64", 64}};

bool is_word_character(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

}  // namespace

const OpaqueTypeInfo* find_opaque_type(std::string_view name) {
  const auto row = std::ranges::find(kOpaqueTypes, name, &OpaqueTypeInfo::name);
  return row == kOpaqueTypes.end() ? nullptr : &*row;
}

bool may_be_opaque_type(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOpaqueName &&
         std::ranges::all_of(name, is_word_character) && find_safetensors_type(name) == nullptr;
}

}  // namespace sparcl::model
