#pragma once
// Elements as numbers, one at a time: for rules about few elements, never for diffs, which compare
// bits.

#include <cstddef>
#include <cstdint>

#include "src/base/data_type.hpp"

namespace sparcl {

// The value of the element at `at` (any alignment). Integers beyond 2^53 are rounded.
double load_number(DataType type, const std::byte* at);

// Rounds to the type's nearest value, ties to even, and writes it. A value that is too large
// becomes infinity, or the largest value of a type without infinity. NaN becomes the type's quiet
// NaN, or 0 of an integer.
void store_number(DataType type, double value, std::byte* at);

}  // namespace sparcl
