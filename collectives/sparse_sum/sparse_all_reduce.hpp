#pragma once
// Sum of sparse vectors with any support, as every rank gets it (sparclAllReduceSparse): check,
// agree, plan, run.

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::collectives::sparse_sum {

extern const CollectiveDescriptor kAllReduceSparse;

struct SparseAllReduceCall {
  Status refusal;                          // of the caller's arguments on this rank
  std::span<const std::uint64_t> indices;  // in any order, also several times
  const std::byte* values = nullptr;
  std::uint64_t count = 0;
  sparse::SumKind kind;
  sparse::Wire wire = sparse::Wire::kSameType;  // for this rank's values, duplicates combined
  std::uint64_t* out_indices = nullptr;
  std::byte* out_values = nullptr;
  std::uint64_t out_capacity = 0;
  std::uint64_t out_nnz = 0;  // once it has succeeded, or was truncated
};

// What must be alike on all ranks, in a fingerprint's `detail`: any number may come over the wire.
struct SparseSumOptions {
  Determinism determinism = Determinism::kCanonical;
  std::uint8_t wire = 0;  // a sparse::Wire, or more
};
std::uint64_t pack_options(const SparseAllReduceCall& call);
SparseSumOptions unpack_options(std::uint64_t packed);

Task all_reduce_sparse(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                       CallReport& report);

}  // namespace sparcl::collectives::sparse_sum
