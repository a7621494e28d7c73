#pragma once
// Where elements of a state have changed: by blocks as changes come, by arrays as they are brought
// elsewhere.

#include <functional>
#include <vector>

#include "src/codec/block_map.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::model {

class NotedChanges {
 public:
  explicit NotedChanges(const codec::BlockMap& map) : map_(map) {}

  // positions: in the block. Blocks may come several times, in any order.
  void add(std::uint64_t block, codec::Positions positions);
  void clear();
  std::uint64_t count() const { return positions_.size(); }  // some elements count several times

  // All changes of one array, each once, ascending: as positions in its own blocks of
  // codec::kBlockElements.
  struct OfArray {
    struct Part {
      std::uint64_t block;
      std::size_t begin;  // of its positions, among all
    };
    std::uint32_t array = 0;
    std::vector<Part> parts;
    std::vector<std::uint16_t> positions;

    std::uint64_t element(std::size_t part, std::size_t position) const {
      return parts[part].block * codec::kBlockElements + positions[position];
    }
    std::size_t end(std::size_t part) const {
      return part + 1 < parts.size() ? parts[part + 1].begin : positions.size();
    }
  };
  // Each array that changes, in turn.
  void for_each_array(const std::function<void(const OfArray&)>& visit);

 private:
  struct OfBlock {
    std::uint64_t block;
    std::size_t at;
    std::size_t count;
  };
  void merge();

  const codec::BlockMap& map_;
  std::vector<OfBlock> blocks_;
  std::vector<std::uint16_t> positions_;
};

}  // namespace sparcl::model
