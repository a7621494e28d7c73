#pragma once
// Keeps many loads in flight at once: loaded values stay in registers, and their first use comes
// after the last load. ptxas keeps that order only if it may use enough registers. Kernels that
// read whole arrays therefore name kResident in their launch bounds, and
// tests/emulated/loads_check.py checks the result.

#include <cstdint>

namespace sparcl::kernels::cuda {

// For loops over arrays that must stay in registers, in case nvcc finds them too long to unroll.
#ifdef __CUDACC__
#define SPARCL_UNROLL _Pragma("unroll")
#else
#define SPARCL_UNROLL
#endif

// The least number of blocks of a multiprocessor: 64 registers a thread. Without it, or with more
// blocks, there are fewer registers: loads wait for each other, or values are spilt.
constexpr unsigned kResident = 4;

struct alignas(16) Vector16 {
  std::uint32_t words[4];
};

__device__ inline bool is_aligned16(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(Vector16) == 0;
}

}  // namespace sparcl::kernels::cuda
