#pragma once
// Names that were probably meant.

#include <cstddef>
#include <string_view>

namespace sparcl {

// Levenshtein's distance: the smallest number of letters inserted, removed or replaced that turns
// one into the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Whether a user who wrote `given` may have meant `name`: it begins so, or differs by at most two
// letters, and by fewer than it has.
bool is_near_name(std::string_view given, std::string_view name);

}  // namespace sparcl
