#pragma once
// Where the tree lies, as CMake knows it: __FILE__ is relative where a compiler cache rewrites
// paths.

#include <filesystem>

namespace sparcl::test {

std::filesystem::path tree();

}  // namespace sparcl::test
