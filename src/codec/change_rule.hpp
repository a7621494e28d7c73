#pragma once
// Which of the changes between base and target are sent. What a rule leaves out stays as the
// receivers hold it, and is a change again in the next update: nothing is lost, it comes later.
// Sizes of changes are |new - old| as doubles; a change that involves a NaN is larger than all
// others, one between +0 and -0 has size 0.

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
  // Moves the changes to send to the front, in their order; returns how many.
  virtual std::size_t keep(const FoundChanges& changes) const = 0;
};

// Larger than a threshold >= 0.
class ThresholdRule : public ChangeRule {
 public:
  explicit ThresholdRule(double threshold) : threshold_(threshold) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  double threshold_;
};

// Of some arrays only: the trainable ones.
class SubsetRule : public ChangeRule {
 public:
  explicit SubsetRule(std::vector<bool> arrays)
      : arrays_(std::move(arrays)) {}  // one entry an array of the map
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  std::vector<bool> arrays_;
};

// Those that show on a coarser grid: old and new value round to different values of the type
// `grid`, or, if grid is an integer type, to different multiples of the array's step. The values
// that are sent are the new ones, not rounded.
class GridRule : public ChangeRule {
 public:
  explicit GridRule(DataType grid, std::vector<double> steps = {})
      : grid_(grid), steps_(std::move(steps)) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  DataType grid_;
  std::vector<double> steps_;  // one an array, for integer grids
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

// Those whose key is above a limit, and of those with the limit's own key the ones before an
// element (counted block by block of kBlockElements): what top-k and a byte budget come down to.
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

// All of several rules, one after the other.
class EveryRule : public ChangeRule {
 public:
  explicit EveryRule(std::vector<const ChangeRule*> rules) : rules_(std::move(rules)) {}
  std::size_t keep(const FoundChanges& changes) const override;

 private:
  std::vector<const ChangeRule*> rules_;
};

}  // namespace sparcl::codec
