#pragma once
// Failpoints: places where a test lets this process die, stop, pause or run out of memory.
// SPARCL_TEST_FAILPOINT="name:count:kill|stop|throw|delay=ms" acts when the failpoint is passed for
// the count-th time.
//
// Every build has them, the installed one included, unless it is configured with
// SPARCL_FAILPOINTS=OFF. The tests therefore kill the library that users run, and no second build
// has to be kept in step. Without the variable a failpoint costs one load of a constant and one
// predictable branch. A failpoint is passed once a block or a fragment, never once an element.

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
