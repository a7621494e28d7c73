#pragma once
// The tensors of a checkpoint for those who go through them once: read from its files block by
// block, so that no more than some blocks is in memory, and a file that another program cuts
// meanwhile is an error.

#include <mutex>

#include "src/codec/array_source.hpp"
#include "src/model/checkpoint.hpp"

namespace sparcl::model {

// One array a tensor. The checkpoint outlives it.
class CheckpointSource final : public codec::ArraySource {
 public:
  explicit CheckpointSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Zeros where it cannot be read.
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;
  // The first error of these reads; or Corrupt, if a file has been written to since it was opened.
  Status status() const override;

  // The arrays of this source alone.
  codec::ArrayInput input() const {
    return {std::vector<const std::byte*>(checkpoint_.schema().size()), this};
  }

 private:
  const Checkpoint& checkpoint_;
  mutable std::mutex mutex_;
  mutable Status error_;
};

}  // namespace sparcl::model
