#pragma once
// The two tiers of tests: quick runs with every change; `scripts/test --long` takes more seeds and bigger sizes.

#include <cstdlib>

namespace sparcl::test {

inline bool long_tier() {
  const char* text = std::getenv("SPARCL_TEST_LONG");
  return text != nullptr && *text == '1';
}

// "How many seeds, mutations, elements": one number for each tier.
template <class T>
T by_tier(T quick, T lengthy) {
  return long_tier() ? lengthy : quick;
}

}  // namespace sparcl::test
