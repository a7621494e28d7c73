#pragma once
// The pass that top-k and thresholds have in common (kernels/accumulate.hpp): residual = acc, and marks of what is large.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

struct alignas(16) Vector4 {
  float x[4];
};

// A whole tile of float32, 16 bytes a load.
__device__ inline void accumulate_vectors(CompactionShared& shared, const float* values, float* residual, std::uint64_t least) {
  using E = Elements<TopKType::kFloat32>;
  const auto* const added = reinterpret_cast<const Vector4*>(values);
  auto* const sums = reinterpret_cast<Vector4*>(residual);
  for (unsigned i = threadIdx.x; i < kTileElements / 4; i += 4 * kThreads) {  // eight loads are under way before the first is used
    Vector4 a[4], b[4];
    for (unsigned j = 0; j < 4; ++j) {
      a[j] = added[i + j * kThreads];
      b[j] = sums[i + j * kThreads];
    }
    for (unsigned j = 0; j < 4; ++j) {
      std::uint32_t bits = 0;
      for (unsigned n = 0; n < 4; ++n) {
        b[j].x[n] = E::canonical(a[j].x[n] + b[j].x[n]);
        if (E::key(b[j].x[n]) >= least) bits |= 1U << n;
      }
      sums[i + j * kThreads] = b[j];
      set_marks<4>(shared, i + j * kThreads, bits);
    }
  }
}

// Elements first to first + count, at most a tile: marked where their key is `least` or more. residual nullptr: there is none.
template <TopKType kType>
__device__ inline void accumulate_tile(CompactionShared& shared, const void* values, void* residual, std::uint64_t first,
                                       std::uint32_t count, std::uint64_t least) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const bool is_aligned = (reinterpret_cast<std::uintptr_t>(values) | reinterpret_cast<std::uintptr_t>(residual)) % 16 == 0;
  if (kType == TopKType::kFloat32 && residual != nullptr && is_aligned && count == kTileElements) {
    accumulate_vectors(shared, static_cast<const float*>(values) + first, static_cast<float*>(residual) + first, least);
  } else if (residual != nullptr) {
    mark_each(shared, count, [&](unsigned i) {
      const Accumulator acc = E::sum(values, residual, first + i);
      static_cast<Accumulator*>(residual)[first + i] = acc;
      return E::key(acc) >= least;
    });
  } else {
    mark_each(shared, count, [&](unsigned i) { return E::key(E::sum(values, nullptr, first + i)) >= least; });
  }
}

}  // namespace sparcl::kernels::cuda
