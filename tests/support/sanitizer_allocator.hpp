#pragma once
// A sanitizer's allocator ends the process where operator new cannot have so much: no test then of
// what follows bad_alloc.

namespace sparcl::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kAllocatorAborts = true;
#else
constexpr bool kAllocatorAborts = false;
#endif

}  // namespace sparcl::test
