#pragma once

#include <cfenv>

namespace sparcl {

// Arithmetic as IEEE 754 has it while one lives: round to nearest, ties to even, and denormals are
// numbers. Callers may have set their thread to flush them to zero (many training programs do), and
// then two ranks would not agree on the bits of a sum. Have the arithmetic read memory and write
// memory: calls keep compilers from moving that across, and nothing else does.
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
