#pragma once
// Where the elements of a state lie in its blocks. Neighbouring arrays of one data type form a run;
// a run's elements, put end to end, are cut every kBlockElements. So a block holds one piece of a
// large tensor, or several small tensors: small ones cost no header each. The map is a pure
// function of the arrays' types and counts, and O(arrays) in memory, not O(elements).

#include <cstdint>
#include <span>
#include <vector>

#include "src/base/data_type.hpp"

namespace sparcl::codec {

constexpr std::uint32_t kBlockElements = 65536;

struct ArraySpec {  // one tensor, as the codec sees it
  DataType datatype;
  std::uint64_t count;

  std::size_t bytes() const { return static_cast<std::size_t>(count) * element_bytes(datatype); }
};

struct Piece {  // elements [first, first + count) of one array, at `offset` elements from the start
                // of the block
  std::uint32_t array;
  std::uint64_t first;
  std::uint32_t count;
  std::uint32_t offset;
};

class BlockMap {
 public:
  explicit BlockMap(std::span<const ArraySpec> arrays);

  std::span<const ArraySpec> arrays() const { return arrays_; }
  std::uint64_t block_count() const { return block_count_; }
  std::uint64_t element_count() const { return element_count_; }
  std::uint64_t byte_count() const { return byte_count_; }

  // Where the blocks of the run lie that block `index` is in.
  struct BlockRun {
    DataType datatype;
    std::uint64_t first_block;
    std::uint64_t block_count;
    std::uint64_t element_count;

    std::uint64_t end() const { return first_block + block_count; }
    // Elements of the blocks [first, last) of it.
    std::uint64_t elements(std::uint64_t first, std::uint64_t last) const {
      const std::uint64_t end_element = (last - first_block) * kBlockElements;
      return (end_element < element_count ? end_element : element_count) -
             (first - first_block) * kBlockElements;
    }
  };
  BlockRun run_of(std::uint64_t index) const;

  // Where an element of an array lies.
  struct Place {
    std::uint64_t block;
    std::uint32_t offset;
  };
  Place place_of(std::uint32_t array, std::uint64_t element) const;

  // Fills `pieces` (cleared first) with block `index` < block_count() in order; returns its data
  // type.
  DataType block(std::uint64_t index, std::vector<Piece>& pieces) const;

 private:
  struct Run {
    DataType datatype;
    std::uint32_t first_array;
    std::uint32_t array_count;
    std::uint64_t first_block;
    std::uint64_t element_count;
  };

  const Run& find_run(std::uint64_t index) const;

  std::vector<ArraySpec> arrays_;
  std::vector<std::uint64_t> array_start_;  // first element of each array inside its run
  std::vector<Run> runs_;                   // only runs that hold elements
  std::uint64_t block_count_ = 0;
  std::uint64_t element_count_ = 0;
  std::uint64_t byte_count_ = 0;
};

}  // namespace sparcl::codec
