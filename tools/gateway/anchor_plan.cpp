#include "tools/gateway/anchor_plan.hpp"

#include <algorithm>

#include "src/base/data_type.hpp"

namespace sparcl::gateway {

AnchorPlan::AnchorPlan(const codec::BlockMap& map, const TensorFilter& filter,
                       std::uint64_t chunk_bytes) {
  std::uint64_t end = 0;
  for (std::uint32_t i = 0; i < map.arrays().size(); ++i) {
    const codec::ArraySpec& array = map.arrays()[i];
    if (!is_sent(filter, i) || array.count == 0) continue;
    const std::size_t width = element_bytes(array.datatype);
    const std::uint64_t step = std::max<std::uint64_t>(1, chunk_bytes / width);
    end += (array.count + step - 1) / step;
    tensors_.push_back({i, array.count, step});
    ends_.push_back(end);
    bytes_ += array.count * width;
  }
}

AnchorPlan::Piece AnchorPlan::at(std::uint64_t chunk) const {
  const auto found = std::ranges::upper_bound(ends_, chunk);
  const auto place = static_cast<std::size_t>(found - ends_.begin());
  const Tensor& tensor = tensors_[place];
  const std::uint64_t first = (chunk - (place == 0 ? 0 : ends_[place - 1])) * tensor.step;
  return {tensor.index, first, std::min(tensor.step, tensor.elements - first)};
}

}  // namespace sparcl::gateway
