#include "src/model/slice_place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "src/model/text.hpp"

namespace sparcl::model {

SlicePlace SlicePlace::all(std::uint64_t bytes) {
  SlicePlace place;
  place.run_bytes_ = bytes;
  return place;
}

std::optional<SlicePlace> SlicePlace::find(const TensorSchema& part, const TensorSchema& held) {
  if (part.opaque || held.opaque)
    return part == held ? std::optional(all(part.opaque->bytes)) : std::nullopt;
  if (part.name != held.name || part.datatype != held.datatype || part.shape != held.shape)
    return {};
  const std::vector<std::uint64_t>& wanted = part.held_shape();
  const std::vector<std::uint64_t>& there = held.held_shape();
  std::vector<std::uint64_t> begin(wanted.size());  // inside the held tensor
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::uint64_t first = part.slice ? part.slice->begin[i] : 0,
                        held_first = held.slice ? held.slice->begin[i] : 0;
    if (first < held_first || first - held_first > there[i] ||
        wanted[i] > there[i] - (first - held_first))
      return {};
    begin[i] = first - held_first;
  }
  SlicePlace place = all(element_bytes(part.datatype));
  if (std::find(wanted.begin(), wanted.end(), 0) != wanted.end()) return all(0);
  // From the innermost dimension on: whole dimensions lengthen the run, the first partial one ends
  // it.
  std::uint64_t stride = element_bytes(part.datatype);
  for (std::size_t i = wanted.size(); i-- > 0; stride *= there[i]) {
    place.first_byte_ += begin[i] * stride;
    if (place.loops_.empty() && place.run_bytes_ == stride) {
      place.run_bytes_ *= wanted[i];
    } else if (!place.loops_.empty() &&
               place.loops_.back().count * place.loops_.back().stride_bytes == stride) {
      place.loops_.back().count *= wanted[i];
    } else if (wanted[i] > 1) {
      place.loops_.push_back({wanted[i], stride});
    }
  }
  std::reverse(place.loops_.begin(), place.loops_.end());
  for (const Loop& loop : place.loops_) place.run_count_ *= loop.count;
  return place;
}

std::uint64_t SlicePlace::run_begin(std::uint64_t run) const {
  std::uint64_t at = first_byte_;
  for (std::size_t i = loops_.size(); i-- > 1; run /= loops_[i].count)
    at += run % loops_[i].count * loops_[i].stride_bytes;
  return loops_.empty() ? at : at + run * loops_[0].stride_bytes;
}

Result<std::vector<PlacedSlice>> place_slices(const Schema& parts, const Schema& held) {
  std::vector<std::size_t> by_name(held.size());
  std::iota(by_name.begin(), by_name.end(), std::size_t{0});
  std::sort(by_name.begin(), by_name.end(),
            [&](std::size_t a, std::size_t b) { return held[a].name < held[b].name; });
  std::vector<PlacedSlice> places;
  places.reserve(parts.size());
  for (const TensorSchema& part : parts) {
    const auto first = std::lower_bound(
        by_name.begin(), by_name.end(), std::string_view(part.name),
        [&](std::size_t tensor, std::string_view name) { return held[tensor].name < name; });
    std::optional<SlicePlace> place;
    std::string there;
    for (auto each = first; !place && each != by_name.end() && held[*each].name == part.name;
         ++each) {
      place = SlicePlace::find(part, held[*each]);
      if (place) places.push_back({*each, *place});
      if (there.empty()) there = describe_kind(held[*each]);
    }
    if (place) continue;
    const std::string name = in_quotes(part.name);
    if (there.empty()) return Status(Code::kMismatch, fmt::format("there is no tensor {}", name));
    return Status(Code::kMismatch,
                  fmt::format("tensor {} is {}, wanted is {}: give the replica the tensors of the "
                              "publisher's model",
                              name, there, describe_kind(part)));
  }
  return places;
}

}  // namespace sparcl::model
