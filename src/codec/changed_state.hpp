#pragma once
// A state with the values of logs over it: the state before updates whose old values were kept, or
// the state after changes that were found.

#include <memory>

#include "kernels/kernel_set.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/codec/change_log.hpp"

namespace sparcl::codec {

class ChangedState final : public ArraySource {
 public:
  using Logs = std::vector<std::shared_ptr<const ChangeLog>>;

  // arrays: all of them, in their current state. logs: the values that each update has replaced, in
  // the updates' order; or the new values of a future update, which may be written to the arrays
  // meanwhile. All outlive the source.
  ChangedState(const BlockMap& map, std::span<std::byte* const> arrays, Logs logs,
               const kernels::KernelSet& kernels)
      : map_(map), arrays_(arrays), logs_(std::move(logs)), kernels_(kernels) {}

  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;

 private:
  const BlockMap& map_;
  std::span<std::byte* const> arrays_;
  Logs logs_;
  const kernels::KernelSet& kernels_;
};

// Estimates the part of the changes of all these logs that remains if they are combined: 1 if no
// element changes twice. From a sample of the blocks.
double distinct_part(std::span<const std::shared_ptr<const ChangeLog>> logs,
                     std::uint64_t block_count);

}  // namespace sparcl::codec
