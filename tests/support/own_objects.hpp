#pragma once
// What this program and the library hold by C++'s new. Open MPI, UCX and all below them are in C:
// what they keep in pools is not in it, so where these numbers stay, nothing of the library was
// lost, whatever the heap does.

#include <cstddef>

namespace sparcl::test {

struct OwnObjects {
  std::size_t number = 0, bytes = 0;
};

// Zeros under a sanitizer, which has its own new, and its own search for leaks.
OwnObjects own_objects();

}  // namespace sparcl::test
