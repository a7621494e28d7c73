#pragma once
// The tensors of a checkpoint for a single pass: read from its files block by block. Only a few
// blocks are in memory, and it is an error if another program truncates a file meanwhile.

#include <mutex>

#include "src/codec/array_source.hpp"
#include "src/model/checkpoint.hpp"

namespace sparcl::model {

// One array for each tensor. The checkpoint outlives it.
class CheckpointSource final : public codec::ArraySource {
 public:
  explicit CheckpointSource(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Writes zeros if the file cannot be read.
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;
  // The first error of these reads, or Corrupt if a file was written to since it was opened.
  Status status() const override;

  // The arrays of this source only.
  codec::ArrayInput input() const {
    return {std::vector<const std::byte*>(checkpoint_.schema().size()), this};
  }

 private:
  const Checkpoint& checkpoint_;
  mutable std::mutex mutex_;
  mutable Status error_;
};

}  // namespace sparcl::model
