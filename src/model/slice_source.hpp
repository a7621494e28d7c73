#pragma once
// Slices of tensors as arrays of their own, without copies of them.

#include <memory>
#include <vector>

#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"
#include "src/model/slice_place.hpp"

namespace sparcl::model {

// Contiguous slices are used in place, the others are read run by run.
class SliceSource final : public codec::ArraySource {
 public:
  // map: of the slices. tensors: the tensors that contain them; if nullptr, `source` has the
  // tensor. All outlive it.
  SliceSource(std::span<const PlacedSlice> places, const codec::BlockMap& map,
              std::vector<const std::byte*> tensors,
              std::shared_ptr<const codec::ArraySource> source = nullptr)
      : places_(places), map_(map), tensors_(std::move(tensors)), source_(std::move(source)) {}

  // One for each slice: nullptr if it must be read.
  std::vector<const std::byte*> pointers() const;

  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;

 private:
  std::span<const PlacedSlice> places_;
  const codec::BlockMap& map_;
  std::vector<const std::byte*> tensors_;
  std::shared_ptr<const codec::ArraySource> source_;
};

}  // namespace sparcl::model
