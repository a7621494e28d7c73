#pragma once
// The pass that top-k and thresholds share (kernels/accumulate.hpp): residual = acc, and marks of
// large elements.

#include "kernels/cuda/accumulator.cuh"
#include "kernels/cuda/ordered_compaction.cuh"

namespace sparcl::kernels::cuda {

// Four neighbours: a load of 16 bytes, or two.
template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Four {
  T x[4];
};

// Whole tiles of arrays that are aligned to their Fours. kHasResidual: false if there is no
// residual.
template <TopKType kType, bool kHasResidual>
__device__ inline void accumulate_fours(CompactionShared& shared,
                                        const typename Elements<kType>::Stored* values,
                                        typename Elements<kType>::Accumulator* residual,
                                        std::uint64_t least) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  constexpr unsigned kLoads =
      sizeof(Accumulator) == 8 ? 2 : 4;  // of each array, in flight before the first is used
  const auto* const added = reinterpret_cast<const Four<typename E::Stored>*>(values);
  auto* const sums = reinterpret_cast<Four<Accumulator>*>(residual);
  for (unsigned i = threadIdx.x; i < kTileElements / 4; i += kLoads * kThreads) {
    Four<typename E::Stored> a[kLoads];
    Four<Accumulator> b[kLoads];
    for (unsigned j = 0; j < kLoads; ++j) {
      a[j] = added[i + j * kThreads];
      if constexpr (kHasResidual) b[j] = sums[i + j * kThreads];
    }
    SPARCL_UNROLL
    for (unsigned j = 0; j < kLoads; ++j) {
      std::uint32_t bits = 0;
      SPARCL_UNROLL
      for (unsigned n = 0; n < 4; ++n) {
        const Accumulator value = E::widen(a[j].x[n]);
        b[j].x[n] =
            E::canonical(kHasResidual ? static_cast<Accumulator>(value + b[j].x[n]) : value);
        if (E::key(b[j].x[n]) >= least) bits |= 1U << n;
      }
      if constexpr (kHasResidual) sums[i + j * kThreads] = b[j];
      set_marks<4>(shared, i + j * kThreads, bits);
    }
  }
}

// Elements first to first + count, at most a tile. Marks those whose key is at least `least`.
// residual nullptr: there is none.
template <TopKType kType>
__device__ inline void accumulate_tile(CompactionShared& shared, const void* values, void* residual,
                                       std::uint64_t first, std::uint32_t count,
                                       std::uint64_t least) {
  using E = Elements<kType>;
  using Accumulator = typename E::Accumulator;
  const auto* const own = static_cast<const typename E::Stored*>(values) + first;
  const bool is_aligned =
      reinterpret_cast<std::uintptr_t>(values) % alignof(Four<typename E::Stored>) == 0 &&
      reinterpret_cast<std::uintptr_t>(residual) % alignof(Four<Accumulator>) == 0;
  if (is_aligned && count == kTileElements) {
    if (residual != nullptr)
      accumulate_fours<kType, true>(shared, own, static_cast<Accumulator*>(residual) + first,
                                    least);
    else
      accumulate_fours<kType, false>(shared, own, nullptr, least);
  } else if (residual != nullptr) {
    mark_each(shared, count, [&](unsigned i) {
      const Accumulator acc = E::sum(values, residual, first + i);
      static_cast<Accumulator*>(residual)[first + i] = acc;
      return E::key(acc) >= least;
    });
  } else {
    mark_each(shared, count,
              [&](unsigned i) { return E::key(E::sum(values, nullptr, first + i)) >= least; });
  }
}

}  // namespace sparcl::kernels::cuda
