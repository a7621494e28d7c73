#pragma once
// The sum of sparse vectors with any support, for every rank (sparclAllReduceSparse): check, agree,
// plan, run.

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse_sum/sparse_sum.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::collectives::sparse_sum {

extern const CollectiveDescriptor kAllReduceSparse;

struct SparseAllReduceCall {
  Status refusal;                          // of the caller's arguments on this rank
  std::span<const std::uint64_t> indices;  // in any order, duplicates allowed
  const std::byte* values = nullptr;
  std::uint64_t count = 0;
  sparse::SumKind kind;
  sparse::Wire wire = sparse::Wire::kSameType;  // for this rank's values, duplicates combined
  std::uint64_t* out_indices = nullptr;
  std::byte* out_values = nullptr;
  std::uint64_t out_capacity = 0;
  std::uint64_t out_nnz = 0;  // valid after success or Truncated
};

// Options that must be equal on all ranks, in a fingerprint's `detail`. They come from the wire and
// may be any number.
struct SparseSumOptions {
  Determinism determinism = Determinism::kCanonical;
  std::uint8_t wire = 0;  // a sparse::Wire, or larger
};
std::uint64_t pack_options(const SparseAllReduceCall& call);
SparseSumOptions unpack_options(std::uint64_t packed);

Task all_reduce_sparse(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                       CallReport& report);

}  // namespace sparcl::collectives::sparse_sum
