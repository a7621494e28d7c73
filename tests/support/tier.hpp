#pragma once
// The two tiers of tests: quick runs with every change; `scripts/test --long` takes more seeds and
// bigger sizes.

#include <algorithm>
#include <cstdlib>

namespace sparcl::test {

#if defined(__SANITIZE_THREAD__)
constexpr int kShare =
    10;  // ThreadSanitizer costs a factor of 10 to 30 and has less to find in one more seed
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kShare = 4;  // AddressSanitizer costs a factor of 3 to 10
#else
constexpr int kShare = 1;
#endif

inline bool long_tier() {
  const char* text = std::getenv("SPARCL_TEST_LONG");
  return text != nullptr && *text == '1';
}

// "How many seeds, mutations, elements": one number for each tier.
template <class T>
T by_tier(T quick, T lengthy) {
  return std::max<T>((long_tier() ? lengthy : quick) / static_cast<T>(kShare), 1);
}

}  // namespace sparcl::test
