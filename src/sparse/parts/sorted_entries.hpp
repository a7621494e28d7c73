#pragma once
// A rank's entries as the algorithms want them: indices ascend strictly. Those of a caller may come
// in any order, and several times.

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/sparse/parts/part_sum.hpp"

namespace sparcl::sparse {

class SortedEntries {
 public:
  // Entries that are sorted already are not copied: they must stay. InvalidArgument where an index
  // is `count` or more.
  Status take(std::span<const std::uint64_t> indices, const std::byte* values, std::uint64_t count,
              const SumKind& kind, const kernels::KernelSet& kernels);

  std::span<const std::uint64_t> indices() const { return indices_; }
  const std::byte* values() const { return values_; }

  // Entries with the same index were combined, in the order in which they came, to values that must
  // not be rounded yet: of a type whose accumulators are wider, values() are accumulators then.
  bool has_duplicates() const { return has_duplicates_; }
  // Makes values() accumulators on this rank, as another one's are.
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

// Whether combined duplicates may be what no element is: not rounded yet, or the -0 of a product,
// which as an input would be +0.
bool makes_accumulators(const SumKind& kind, const kernels::KernelSet& kernels);

}  // namespace sparcl::sparse
