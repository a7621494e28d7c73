#pragma once
// Rounding to 4 or 2 bits with a bfloat16 scale for each group of 128 values (docs/decisions 0035).

#include <cstddef>

#include "src/sparse/parts/value_form.hpp"

namespace sparcl::sparse {

// rounded[i]: values[i] rounded to the nearest level of its group (parts/scaled_groups.hpp), of two
// the one nearer to 0. A group that its levels contain exactly stays unchanged, so that rounding
// twice is rounding once. Zeros become +0; groups with an infinity or NaN are unchanged. The bits
// are the same on every machine. form: kScaled4 or kScaled2. Any alignment; rounded may be values.
void round_to_groups(ValueForm form, const std::byte* values, std::size_t count,
                     std::byte* rounded);

}  // namespace sparcl::sparse
