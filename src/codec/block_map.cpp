#include "src/codec/block_map.hpp"

#include <algorithm>

namespace sparcl::codec {
namespace {

std::uint64_t blocks_of(std::uint64_t elements) {
  return elements / kBlockElements + (elements % kBlockElements != 0);
}

}  // namespace

BlockMap::BlockMap(std::span<const ArraySpec> arrays)
    : arrays_(arrays.begin(), arrays.end()), array_start_(arrays.size(), 0) {
  for (std::uint32_t i = 0; i < arrays_.size(); ++i) {
    const ArraySpec& array = arrays_[i];
    const bool begins =
        runs_.empty() || (array.count > 0 && runs_.back().datatype != array.datatype);
    if (array.count > 0 && begins) {
      if (!runs_.empty()) block_count_ += blocks_of(runs_.back().element_count);
      runs_.push_back({array.datatype, i, 0, block_count_, 0});
    }
    if (runs_.empty()) continue;
    Run& run = runs_.back();
    array_start_[i] = run.element_count;
    run.element_count += array.count;
    run.array_count = i + 1 - run.first_array;
    element_count_ += array.count;
    byte_count_ += array.count * element_bytes(array.datatype);
  }
  if (!runs_.empty()) block_count_ += blocks_of(runs_.back().element_count);
}

const BlockMap::Run& BlockMap::find_run(std::uint64_t index) const {
  return *(std::upper_bound(
               runs_.begin(), runs_.end(), index,
               [](std::uint64_t block, const Run& run) { return block < run.first_block; }) -
           1);
}

BlockMap::BlockRun BlockMap::run_of(std::uint64_t index) const {
  const Run& run = find_run(index);
  return {run.datatype, run.first_block, blocks_of(run.element_count), run.element_count};
}

BlockMap::Place BlockMap::place_of(std::uint32_t array, std::uint64_t element) const {
  const Run& run = *(std::upper_bound(runs_.begin(), runs_.end(), array,
                                      [](std::uint32_t which, const Run& each) {
                                        return which < each.first_array;
                                      }) -
                     1);
  const std::uint64_t at = array_start_[array] + element;
  return {run.first_block + at / kBlockElements, static_cast<std::uint32_t>(at % kBlockElements)};
}

DataType BlockMap::block(std::uint64_t index, std::vector<Piece>& pieces) const {
  pieces.clear();
  const Run* run = &find_run(index);
  std::uint64_t at = (index - run->first_block) * kBlockElements;  // elements from the run's start
  const std::uint64_t end = std::min(at + kBlockElements, run->element_count);
  const auto starts = array_start_.begin() + run->first_array;
  auto array = static_cast<std::uint32_t>(std::upper_bound(starts, starts + run->array_count, at) -
                                          array_start_.begin() - 1);
  for (std::uint32_t offset = 0; at < end; ++array) {
    const std::uint64_t first = at - array_start_[array];
    const auto count = static_cast<std::uint32_t>(std::min(arrays_[array].count - first, end - at));
    if (count > 0) pieces.push_back({array, first, count, offset});
    offset += count;
    at += count;
  }
  return run->datatype;
}

}  // namespace sparcl::codec
