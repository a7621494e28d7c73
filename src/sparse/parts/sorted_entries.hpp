#pragma once
// A rank's entries in the form that algorithms need: indices ascend strictly. The caller's entries
// may come in any order, with duplicates.

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/sparse/parts/part_sum.hpp"

namespace sparcl::sparse {

class SortedEntries {
 public:
  // Entries that are sorted already are not copied: they must stay valid. InvalidArgument if an
  // index is at least `count`.
  Status take(std::span<const std::uint64_t> indices, const std::byte* values, std::uint64_t count,
              const SumKind& kind, const kernels::KernelSet& kernels);

  std::span<const std::uint64_t> indices() const { return indices_; }
  const std::byte* values() const { return values_; }

  // Entries with the same index were combined, in the order of the input. The result must not be
  // rounded yet: if the type's accumulators are wider, values() are accumulators.
  bool has_duplicates() const { return has_duplicates_; }
  // Turns values() into accumulators on this rank, as on another rank.
  void widen(DataType datatype, const kernels::KernelSet& kernels);

 private:
  Status sort(std::span<const std::uint64_t> indices, const std::byte* values, std::uint64_t count,
              const SumKind& kind, const kernels::KernelSet& kernels);
  void combine_duplicates(const SumKind& kind, const kernels::KernelSet& kernels);

  std::span<const std::uint64_t> indices_;
  const std::byte* values_ = nullptr;
  bool has_duplicates_ = false;
  std::vector<std::uint64_t> own_indices_;
  std::vector<std::byte> own_values_;
};

// Whether combined duplicates may differ from every element: not rounded yet, or the -0 of a
// product, which as an input would be +0.
bool makes_accumulators(const SumKind& kind, const kernels::KernelSet& kernels);

}  // namespace sparcl::sparse
