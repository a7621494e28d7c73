#include "src/model/slice_source.hpp"

#include <cstring>

namespace sparcl::model {

std::vector<const std::byte*> SliceSource::pointers() const {
  std::vector<const std::byte*> pointers;
  pointers.reserve(places_.size());
  for (const PlacedSlice& each : places_) {
    const std::byte* tensor = tensors_[each.tensor];
    pointers.push_back(tensor != nullptr && each.place.is_contiguous()
                           ? tensor + each.place.first_byte()
                           : nullptr);
  }
  return pointers;
}

void SliceSource::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                       std::byte* out) const {
  const auto& [tensor, place] = places_[array];
  const std::uint64_t width = element_bytes(map_.arrays()[array].datatype);
  const std::byte* bytes = tensors_[tensor];
  const auto index = static_cast<std::uint32_t>(tensor);
  place.for_each_run(first * width, count * width, [&](std::uint64_t at, std::uint64_t run_bytes) {
    if (bytes != nullptr) {
      std::memcpy(out, bytes + at, run_bytes);
    } else {
      source_->read(index, at / width, run_bytes / width, out);
    }
    out += run_bytes;
  });
}

}  // namespace sparcl::model
