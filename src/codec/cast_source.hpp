#pragma once
// Arrays that are float32 masters. They are rounded to the sent type while they are read.

#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// float16, bfloat16 and the floats of 8 bits.
bool can_be_cast_to(DataType type);

class CastSource final : public ArraySource {
 public:
  // masters: one for each array of the map; nullptr if it is not read, or is read as float32 from
  // `elsewhere`. All outlive the source, as do the kernels.
  CastSource(const BlockMap& map, std::vector<const float*> masters,
             const kernels::KernelSet& kernels, const ArraySource* elsewhere = nullptr)
      : map_(map), masters_(std::move(masters)), kernels_(kernels), elsewhere_(elsewhere) {}

  // Rounds to nearest, ties to even; NaN becomes the type's quiet NaN. Values that are too large
  // become infinite; in float8e4m3, which has no infinity, the largest number.
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override;
  Status status() const override { return elsewhere_ != nullptr ? elsewhere_->status() : Status(); }

 private:
  const BlockMap& map_;
  std::vector<const float*> masters_;
  const kernels::KernelSet& kernels_;
  const ArraySource* elsewhere_;
};

}  // namespace sparcl::codec
