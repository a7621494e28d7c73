#pragma once
// Rounding to 8 bits with scales: as MXINT8 of the OCP Microscaling Formats (v1.0, 2023), with
// larger groups. All values of a group are m * 2^e, |m| <= 127, with the smallest e that its
// largest value allows.

#include <cstddef>

#include "src/sparse/parts/value_form.hpp"

namespace sparcl::sparse {

// rounded[i]: values[i] rounded to the nearest number of its group, ties to even; values nearest to
// 0 become +0. Groups with an infinity or NaN are unchanged. Any alignment; rounded may be values.
void round_to_scaled(const std::byte* values, std::size_t count, std::byte* rounded);

}  // namespace sparcl::sparse
