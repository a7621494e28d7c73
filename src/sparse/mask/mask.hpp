#pragma once
// Elements of an array that all ranks know, so that nothing about them is ever sent: their values
// lie packed, in ascending order.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "kernels/mask_access.hpp"
#include "src/base/status.hpp"
#include "src/sparse/mask/mask_sketch.hpp"

namespace sparcl::sparse {

class Mask {
 public:
  // Strictly ascending, below count.
  static Result<Mask> of_indices(std::span<const std::uint64_t> indices, std::uint64_t count);
  // round(density * n) of the n elements, or of the n blocks of `block` elements (the last may be
  // shorter); 0 <= density <= 1.
  static Result<Mask> random(std::uint64_t count, double density, std::uint64_t seed);
  static Result<Mask> random_blocks(std::uint64_t count, std::uint64_t block, double density,
                                    std::uint64_t seed);

  // Draws a new random mask: a pure function of seed and step, which is 0 at first. A mask of
  // indices does not change.
  void set_step(std::uint64_t step);

  std::uint64_t count() const { return count_; }  // elements of the array
  std::uint64_t size() const { return size_; }    // elements in the mask
  std::uint64_t identity() const {
    return identity_;
  }                           // equal for equal masks that were made in the same way; for agreement
  MaskSketch sketch() const;  // for the text of a Mismatch

  // The elements, ascending; room for size().
  void write_indices(std::uint64_t* indices) const;

  // The positions, for code that copies them; valid until the next draw. The parts lack their end
  // (kernels/mask_access.hpp).
  struct Places {
    bool is_full = false;  // then the other members are empty
    std::span<const kernels::MaskPart> parts;
    std::span<const std::uint16_t> positions;
    std::span<const std::uint64_t> runs;
    std::uint64_t run_elements = 0;
  };
  Places places() const;

  // packed[i - first] = the value of the mask's element i, for i in [first, first + n), n elements
  // of element_bytes() of `type`.
  void pack(const std::byte* array, std::uint64_t first, std::uint64_t n, DataType type,
            const kernels::KernelSet& kernels, std::byte* packed) const;
  // The inverse: elements outside the mask are not written.
  void unpack(const std::byte* packed, std::uint64_t first, std::uint64_t n, DataType type,
              const kernels::KernelSet& kernels, std::byte* array) const;
  // Zeros elsewhere.
  void clear_outside(DataType type, std::byte* array) const;

 private:
  using Part = kernels::MaskPart;  // empty ones are left out
  // [first, first + n) of the mask, split where the array's blocks (or the mask's) end.
  template <class Visit>
  void for_parts(std::uint64_t first, std::uint64_t n, const Visit& visit) const;
  template <class Visit>
  void for_runs(std::uint64_t first, std::uint64_t n, const Visit& visit) const;

  void draw();
  void take(std::span<const std::uint64_t> ascending);
  void draw_elements();

  MaskKind kind_ = MaskKind::kIndices;
  std::uint64_t count_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t identity_ = 0;
  std::uint64_t block_ = 1;   // elements; kBlocks
  double density_ = 0;        // as it was given
  std::uint64_t chosen_ = 0;  // elements or blocks, of a random mask
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  bool is_full_ = false;  // then neither of these is kept
  std::vector<Part> parts_;
  std::vector<std::uint16_t> positions_;  // in their blocks
  std::vector<std::uint64_t> runs_;       // kBlocks: numbers of the blocks, ascending
};

}  // namespace sparcl::sparse
