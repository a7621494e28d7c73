#pragma once
// Elements that change in clusters.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "kernels/word_hash.hpp"

namespace sparcl::test {

using IsChosen = std::function<bool(std::size_t element)>;

// A number of chance.
inline std::uint64_t mixed(std::uint64_t of) { return kernels::hash_key(of + 1) >> 8; }

// One in `every` rows, and of its elements all, or those that a second throw takes.
inline IsChosen rows(std::size_t row_elements, std::uint64_t every, std::uint32_t permille = 1000) {
  return [=](std::size_t i) {
    const std::uint64_t row = mixed(i / row_elements),
                        element = mixed(i + (std::uint64_t{1} << 40));
    return row % every == 0 && element % 1000 < permille;
  };
}
inline IsChosen between(std::size_t begin, std::size_t end) {
  return [=](std::size_t i) { return i >= begin && i < end; };
}

}  // namespace sparcl::test
