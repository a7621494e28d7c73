#pragma once
// What keeps many loads under way at once: what is loaded stays in registers, and its first use
// comes after the last load. ptxas keeps to that order only where it may take the registers:
// kernels that read whole arrays say kResident in their launch bounds, and
// tests/emulated/loads_check.py looks at what came of it.

#include <cstdint>

namespace sparcl::kernels::cuda {

// For loops over arrays that must stay in registers, where nvcc might find them too long.
#ifdef __CUDACC__
#define SPARCL_UNROLL _Pragma("unroll")
#else
#define SPARCL_UNROLL
#endif

// Blocks that a multiprocessor has at least: 64 registers a thread. With none said, or more of
// them, there are fewer registers: loads wait for each other, or values are spilt.
constexpr unsigned kResident = 4;

struct alignas(16) Vector16 {
  std::uint32_t words[4];
};

__device__ inline bool is_aligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vector16) == 0;
}

}  // namespace sparcl::kernels::cuda
