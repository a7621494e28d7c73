#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sparcl::trust {

// In lower case, in constant time.
std::string hex_of(std::span<const std::byte> bytes);

// Empty if the text is not hex, or has an odd length.
std::vector<std::byte> bytes_of_hex(const std::string& text);

}  // namespace sparcl::trust
