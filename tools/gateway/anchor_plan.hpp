#pragma once
// How an anchor, all values of the chosen tensors, is cut into chunks. It depends on the tensors
// and the size of chunks alone: a client that lost its stream goes on with the next chunk.

#include <cstdint>
#include <vector>

#include "src/codec/block_map.hpp"
#include "tools/gateway/tensor_filter.hpp"

namespace sparcl::gateway {

class AnchorPlan {
 public:
  AnchorPlan(const codec::BlockMap& map, const TensorFilter& filter, std::uint64_t chunk_bytes);

  struct Piece {
    std::uint32_t tensor = 0;
    std::uint64_t first = 0, count = 0;  // elements
  };
  std::uint64_t chunk_count() const { return ends_.empty() ? 0 : ends_.back(); }
  std::uint64_t byte_count() const { return bytes_; }
  Piece at(std::uint64_t chunk) const;

 private:
  struct Tensor {
    std::uint32_t index;
    std::uint64_t elements, step;  // step: elements of a chunk
  };
  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> ends_;  // by tensor: the chunks up to its last one
  std::uint64_t bytes_ = 0;
};

}  // namespace sparcl::gateway
