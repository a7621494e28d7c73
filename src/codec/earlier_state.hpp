#pragma once
// A state as it was before updates whose old values were kept.

#include <memory>

#include "kernels/kernel_set.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/change_log.hpp"

namespace sparcl::codec {

class EarlierState final : public ArraySource {
 public:
  using Logs = std::vector<std::shared_ptr<const ChangeLog>>;

  // newest: all arrays, as they are after the last of the updates that these logs are of, in the updates' order. All outlive the
  // source, and stay as they are.
  EarlierState(const BlockMap& map, std::span<std::byte* const> newest, Logs logs, const kernels::KernelSet& kernels)
      : map_(map), newest_(newest), logs_(std::move(logs)), kernels_(kernels) {}

  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count, std::byte* out) const override;

 private:
  const BlockMap& map_;
  std::span<std::byte* const> newest_;
  Logs logs_;
  const kernels::KernelSet& kernels_;
};

// About which part of the changes of all these logs is left of them together, where elements change more than once: 1 if none does.
// From a sample of the blocks.
double distinct_part(std::span<const std::shared_ptr<const ChangeLog>> logs, std::uint64_t block_count);

}  // namespace sparcl::codec
