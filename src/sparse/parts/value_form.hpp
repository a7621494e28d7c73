#pragma once
// The forms in which a message contains float32 values.

#include <cstddef>
#include <cstdint>

namespace sparcl::sparse {

// The numbers are sent (part_code.hpp).
enum class ValueForm : std::uint8_t { kUnmodified = 0, kScaled8 = 1, kScaled4 = 2, kScaled2 = 3 };
constexpr std::uint8_t kValueForms = 4;

// Values that share a scale, in the order in which a rank has them; the last group may be short.
constexpr std::size_t kScaledGroup = 128;

}  // namespace sparcl::sparse
