#include "src/sparse/parts/sorted_entries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/base/float_environment.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::sparse {
namespace {

Status check_below(std::span<const std::uint64_t> indices, std::uint64_t count) {
  const auto bad = std::find_if(indices.begin(), indices.end(),
                                [count](std::uint64_t index) { return index >= count; });
  if (bad == indices.end()) return Status();
  return Status(Code::kInvalidArgument, fmt::format("indices[{}] = {}, but there are {} elements",
                                                    bad - indices.begin(), *bad, count));
}

// With room in front so that accumulators can be aligned.
std::byte* align(std::byte* at) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  return at + (kernels::kAccumulatorAlignment - address % kernels::kAccumulatorAlignment) %
                  kernels::kAccumulatorAlignment;
}

}  // namespace

bool makes_accumulators(const SumKind& kind, const kernels::KernelSet& kernels) {
  if (kernels.reduce_of(kind.datatype).accumulator_bytes != element_bytes(kind.datatype))
    return true;
  return info(kind.datatype).is_float && kind.reduction.op == kernels::ReduceOp::kProd;
}

Status SortedEntries::take(std::span<const std::uint64_t> indices, const std::byte* values,
                           std::uint64_t count, const SumKind& kind,
                           const kernels::KernelSet& kernels) {
  indices_ = indices;
  values_ = values;
  has_duplicates_ = false;
  if (indices.empty()) return Status();
  if (!kernels.entries.ascend(indices.data(), indices.size()))
    return sort(indices, values, count, kind, kernels);
  return indices.back() < count ? Status() : check_below(indices, count);
}

Status SortedEntries::sort(std::span<const std::uint64_t> indices, const std::byte* values,
                           std::uint64_t count, const SumKind& kind,
                           const kernels::KernelSet& kernels) {
  SPARCL_RETURN_IF_ERROR(check_below(indices, count));
  struct Entry {
    std::uint64_t index, place;
    auto operator<=>(const Entry&) const = default;
  };
  std::vector<Entry> order(indices.size());
  for (std::size_t i = 0; i < indices.size(); ++i) order[i] = {indices[i], i};
  std::sort(order.begin(), order.end());
  const std::size_t width = element_bytes(kind.datatype);
  own_indices_.resize(order.size());
  own_values_.resize(order.size() * width);
  for (std::size_t i = 0; i < order.size(); ++i) {
    own_indices_[i] = order[i].index;
    std::memcpy(own_values_.data() + i * width, values + order[i].place * width, width);
    has_duplicates_ |= i > 0 && order[i - 1].index == order[i].index;
  }
  indices_ = own_indices_;
  values_ = own_values_.data();
  if (has_duplicates_) combine_duplicates(kind, kernels);
  return Status();
}

void SortedEntries::combine_duplicates(const SumKind& kind, const kernels::KernelSet& kernels) {
  const FloatEnvironment ieee;
  widen(kind.datatype, kernels);
  const kernels::ReduceKernels& reduce = kernels.reduce_of(kind.datatype);
  kernels::CombineKernel* const combine =
      reduce.combine[static_cast<std::size_t>(kind.reduction.op)];
  const std::size_t width = reduce.accumulator_bytes;
  std::byte* const sums = own_values_.data() + (values_ - own_values_.data());
  std::size_t last = 0;
  for (std::size_t i = 1; i < own_indices_.size(); ++i) {
    if (own_indices_[i] == own_indices_[last]) {
      combine(sums + last * width, sums + i * width, 1);
      continue;
    }
    ++last;
    own_indices_[last] = own_indices_[i];
    std::memmove(sums + last * width, sums + i * width, width);
  }
  own_indices_.resize(last + 1);
  indices_ = own_indices_;
}

void SortedEntries::widen(DataType datatype, const kernels::KernelSet& kernels) {
  const kernels::ReduceKernels& reduce = kernels.reduce_of(datatype);
  std::vector<std::byte> wide(indices_.size() * reduce.accumulator_bytes +
                              kernels::kAccumulatorAlignment);
  std::byte* const begin = align(wide.data());
  const FloatEnvironment ieee;
  reduce.widen(values_, indices_.size(), begin);
  own_values_ = std::move(wide);  // its bytes stay where they are
  values_ = begin;
}

}  // namespace sparcl::sparse
