#include "src/codec/change_rule.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/float_environment.hpp"
#include "src/base/number.hpp"

namespace sparcl::codec {
namespace {

// Keeps the changes for which test(i, piece) holds; the pieces are walked along with the positions.
template <class Test>
std::size_t keep_if(const FoundChanges& changes, Test test) {
  const std::size_t width = element_bytes(changes.datatype);
  std::size_t kept = 0;
  std::size_t piece = 0;
  for (std::size_t i = 0; i < changes.count; ++i) {
    while (changes.positions[i] >= changes.pieces[piece].offset + changes.pieces[piece].count)
      ++piece;
    if (!test(i, changes.pieces[piece])) continue;
    if (kept != i) {
      changes.positions[kept] = changes.positions[i];
      std::memcpy(changes.old_values + kept * width, changes.old_values + i * width, width);
      std::memcpy(changes.new_values + kept * width, changes.new_values + i * width, width);
    }
    ++kept;
  }
  return kept;
}

struct Pair {
  double old_value;
  double new_value;
};

Pair numbers_at(const FoundChanges& changes, std::size_t i) {
  const std::size_t at = i * element_bytes(changes.datatype);
  return {load_number(changes.datatype, changes.old_values + at),
          load_number(changes.datatype, changes.new_values + at)};
}

// Values of a grid, such that equal places have equal numbers.
std::uint64_t place_on(DataType grid, double value, double step) {
  std::uint64_t bits = 0;
  if (info(grid).is_float) {
    store_number(grid, value, reinterpret_cast<std::byte*>(&bits));
    return value == 0 ? 0 : bits;  // -0 and +0 are one place
  }
  if (std::isnan(value)) return std::numeric_limits<std::uint64_t>::max();
  store_number(grid, step > 0 ? value / step : 0.0, reinterpret_cast<std::byte*>(&bits));
  return bits;
}

}  // namespace

std::uint64_t change_key(DataType type, const std::byte* old_value, const std::byte* new_value) {
  const double size = std::fabs(load_number(type, new_value) - load_number(type, old_value));
  if (std::isnan(size)) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::uint64_t>(std::bit_cast<std::uint64_t>(size), 1);
}

std::size_t ThresholdRule::keep(const FoundChanges& changes) const {
  return keep_if(changes, [&](std::size_t i, const Piece&) {
    const auto [old_value, new_value] = numbers_at(changes, i);
    return !(std::fabs(new_value - old_value) <= threshold_);  // NaN is kept
  });
}

std::size_t SubsetRule::keep(const FoundChanges& changes) const {
  return keep_if(changes, [&](std::size_t, const Piece& piece) { return arrays_[piece.array]; });
}

std::size_t GridRule::keep(const FoundChanges& changes) const {
  return keep_if(changes, [&](std::size_t i, const Piece& piece) {
    const double step = steps_.empty() ? 1.0 : steps_[piece.array];
    const auto [old_value, new_value] = numbers_at(changes, i);
    return place_on(grid_, old_value, step) != place_on(grid_, new_value, step);
  });
}

std::size_t CutRule::keep(const FoundChanges& changes) const {
  const std::uint64_t limit = cut_.key >> cut_.ignored_bits;
  const std::size_t width = element_bytes(changes.datatype);
  return keep_if(changes, [&](std::size_t i, const Piece&) {
    const std::uint64_t key = change_key(changes.datatype, changes.old_values + i * width,
                                         changes.new_values + i * width) >>
                              cut_.ignored_bits;
    return key > limit ||
           (key == limit && changes.block * kBlockElements + changes.positions[i] < cut_.end);
  });
}

std::size_t EveryRule::keep(const FoundChanges& changes) const {
  FoundChanges left = changes;
  for (const ChangeRule* rule : rules_) left.count = rule->keep(left);
  return left.count;
}

std::vector<double> grid_steps(const BlockMap& map, const ArrayInput& arrays, DataType grid) {
  const FloatEnvironment exact;
  std::uint64_t top_bits = 0;
  store_number(grid, std::numeric_limits<double>::max(), reinterpret_cast<std::byte*>(&top_bits));
  const double top = load_number(grid, reinterpret_cast<const std::byte*>(&top_bits));
  std::vector<double> steps(arrays.arrays.size());
  std::vector<std::byte> scratch;
  for (std::uint32_t array = 0; array < steps.size(); ++array) {
    const auto& [type, count] = map.arrays()[array];
    const std::size_t width = element_bytes(type);
    double largest = 0;
    for (std::uint64_t first = 0; first < count; first += kBlockElements) {
      const std::uint64_t some = std::min<std::uint64_t>(kBlockElements, count - first);
      const std::byte* values = arrays.read(array, first, some, width, scratch);
      for (std::uint64_t i = 0; i < some; ++i) {
        const double size = std::fabs(load_number(type, values + i * width));
        if (std::isfinite(size)) largest = std::max(largest, size);
      }
    }
    steps[array] = largest / top;
  }
  return steps;
}

}  // namespace sparcl::codec
