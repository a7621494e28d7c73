#pragma once
// Places where a test lets this process die, stop, dawdle or run out of memory:
// SPARCL_TEST_FAILPOINT="name:count:kill|stop|throw|delay=ms" acts when the place is passed for the
// count-th time.
//
// They are in every build that is not configured with SPARCL_FAILPOINTS=OFF, the installed one
// included: what the tests kill is then the very library that users run, and there is no second
// build to keep in step. Without the variable a place costs one load of a constant and a branch
// that is always taken the same way; places are passed once a block or a fragment, never once an
// element.

#include <string_view>

namespace sparcl {

#ifdef SPARCL_NO_FAILPOINTS
#define SPARCL_FAILPOINT(name) static_cast<void>(0)
#else
extern const bool kFailpointsArmed;
void pass_failpoint(std::string_view name);

#define SPARCL_FAILPOINT(name)                                      \
  do {                                                              \
    if (::sparcl::kFailpointsArmed) ::sparcl::pass_failpoint(name); \
  } while (false)
#endif

}  // namespace sparcl
