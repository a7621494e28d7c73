#include "tests/fuzz/fuzz_target.hpp"

#include <cstdio>
#include <cstdlib>

namespace sparcl::fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

void require(bool holds, const std::string& promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise.c_str());
  std::abort();
}

}  // namespace sparcl::fuzz
