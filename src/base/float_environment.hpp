#pragma once

#include <cfenv>

namespace sparcl {

// IEEE 754 arithmetic while it lives: round to nearest, ties to even, with denormals. The caller's
// thread may flush denormals to zero, as in many training programs. Two ranks would then not agree
// on the bits of a sum. The arithmetic must read and write memory, because compilers do not move
// memory accesses across calls.
class FloatEnvironment {
 public:
  FloatEnvironment() {
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~FloatEnvironment() { std::fesetenv(&saved_); }
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
  std::fenv_t saved_;
};

}  // namespace sparcl
