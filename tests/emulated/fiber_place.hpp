#pragma once
// Where a fiber of one thread is, and going from one to another.

#include <setjmp.h>
#include <ucontext.h>

namespace sparcl::test::emulated {

struct FiberPlace {
  ucontext_t context{};  // of its first turn
  jmp_buf later{};
  bool has_begun = true;  // it is the one that runs, or has run
};

// Returns when somebody comes back. swapcontext() asks the system for the signal mask, which takes
// most of a test's time: jumps do not. Neither sanitizers nor checked jumps follow one to another
// stack.
inline void go(FiberPlace& from, FiberPlace& to) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || _FORTIFY_SOURCE > 0
  swapcontext(&from.context, &to.context);
#else
  if (_setjmp(from.later) != 0) return;
  if (to.has_begun) _longjmp(to.later, 1);
  to.has_begun = true;
  setcontext(&to.context);
#endif
}

}  // namespace sparcl::test::emulated
