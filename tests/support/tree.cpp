#include "tests/support/tree.hpp"

namespace sparcl::test {

std::filesystem::path tree() { return SPARCL_TEST_TREE; }

}  // namespace sparcl::test
