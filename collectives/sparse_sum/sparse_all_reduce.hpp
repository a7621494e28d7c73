#pragma once
// Sum of sparse vectors with any support, as every rank gets it (sparclAllReduceSparse): check,
// agree, plan, run.

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/sparse_sum/sparse_sum.hpp"

namespace sparcl::collectives::sparse_sum {

extern const CollectiveDescriptor kAllReduceSparse;

struct SparseAllReduceCall {
  Status refusal;                          // of the caller's arguments on this rank
  std::span<const std::uint64_t> indices;  // in any order, also several times
  const std::byte* values = nullptr;
  std::uint64_t count = 0;
  sparse::SumKind kind;
  std::uint64_t* out_indices = nullptr;
  std::byte* out_values = nullptr;
  std::uint64_t out_capacity = 0;
  std::uint64_t out_nnz = 0;  // once it has succeeded, or was truncated
};
Task all_reduce_sparse(const CommContext& comm, std::uint32_t number, SparseAllReduceCall& call,
                       CallReport& report);

}  // namespace sparcl::collectives::sparse_sum
