#pragma once
// Decides which changes between base and target are sent. The receivers keep the old value of a
// change that a rule leaves out, and the next update includes the difference again: the change
// comes later, it is not lost. The size of a change is |new - old| as doubles. A change that
// involves a NaN is larger than all others; a change between +0 and -0 has size 0.

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/array_source.hpp"
#include "src/codec/block_map.hpp"

namespace sparcl::codec {

// The changes of one block, as the diff found them.
struct FoundChanges {
  std::uint64_t block;
  DataType datatype;
  std::span<const Piece> pieces;
  std::uint16_t* positions;
  std::byte* old_values;
  std::byte* new_values;
  std::size_t count;
};

class ChangeRule {
 public:
  virtual ~ChangeRule() = default;
  // Moves the changes to send to the front, in their order; returns their number.
  virtual std::size_t keep(const FoundChanges& changes) const = 0;
};

// Keeps changes larger than a threshold >= 0.
class ThresholdRule : public ChangeRule {
 public:
  explicit ThresholdRule(double threshold) : threshold_(threshold) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  double threshold_;
};

// Keeps the changes of some arrays: the trainable ones.
class SubsetRule : public ChangeRule {
 public:
  explicit SubsetRule(std::vector<bool> arrays)
      : arrays_(std::move(arrays)) {}  // one entry for each array of the map
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  std::vector<bool> arrays_;
};

// Keeps changes that are visible on a coarser grid. The old and the new value round to different
// values of the type `grid`, or, if grid is an integer type, to different multiples of the array's
// step. The sent values are the new ones, not rounded.
class GridRule : public ChangeRule {
 public:
  explicit GridRule(DataType grid, std::vector<double> steps = {})
      : grid_(grid), steps_(std::move(steps)) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  DataType grid_;
  std::vector<double> steps_;  // one for each array, for integer grids
};

// The steps of an integer grid: the largest finite |x| of each array, over the grid's largest
// value.
std::vector<double> grid_steps(const BlockMap& map, const ArrayInput& arrays, DataType grid);
inline std::vector<double> grid_steps(const BlockMap& map, std::span<const std::byte* const> arrays,
                                      DataType grid) {
  return grid_steps(map, ArrayInput{{arrays.begin(), arrays.end()}}, grid);
}

// The size of a change as an integer that grows with it; at least 1.
std::uint64_t change_key(DataType type, const std::byte* old_value, const std::byte* new_value);

// Keeps changes whose key is above a limit. It also keeps changes with the limit's own key that lie
// before an element (counted block by block of kBlockElements). Top-k and a byte budget use it.
// Keys are compared without their `ignored_bits` lowest bits.
struct ChangeCut {
  std::uint64_t key = 0;  // 0: all are kept
  std::uint64_t end = 0;
  unsigned ignored_bits = 0;
};

class CutRule : public ChangeRule {
 public:
  explicit CutRule(const ChangeCut& cut) : cut_(cut) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  ChangeCut cut_;
};

// Applies several rules, one after the other.
class EveryRule : public ChangeRule {
 public:
  explicit EveryRule(std::vector<const ChangeRule*> rules) : rules_(std::move(rules)) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  std::vector<const ChangeRule*> rules_;
};

}  // namespace sparcl::codec
