#pragma once
// Finds a block's changes, by comparing all of it or only the elements that the caller's hints
// name.

#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_view.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// The output of a block's changes: room for those of a whole block, with the slack that kernels
// need.
struct ChangeOutput {
  std::uint16_t* positions;
  std::byte* old_values;
  std::byte* new_values;

  ChangeOutput after(std::size_t count, std::size_t width) const {
    return {positions + count, old_values + count * width, new_values + count * width};
  }
};

// Visit blocks in ascending order: the scan keeps its place in each list of indices.
class ChangeScan {
 public:
  ChangeScan(const BlockMap& map, std::span<const ChangedHint* const> hints,
             const kernels::KernelSet& kernels)
      : map_(map), hints_(hints), kernels_(kernels) {}

  // Are the hints well-formed, as far as a check without a full pass can tell?
  Status check() const;

  // Writes what differs, and how many elements. The views are of the block that these pieces of the
  // map are.
  Status scan(const BlockView& base, const BlockView& target, std::span<const Piece> pieces,
              const ChangeOutput& out, std::size_t& count);

 private:
  struct PieceBytes;
  std::size_t compare(const PieceBytes& bytes, std::uint64_t first, std::uint64_t count,
                      const ChangeOutput& out) const;
  std::size_t scan_blocks(const PieceBytes& bytes, const ChangedHint& hint,
                          const ChangeOutput& out) const;
  template <class T>
  std::size_t take_indices(const PieceBytes& bytes, std::span<const std::uint64_t> indices,
                           const ChangeOutput& out);
  Status scan_indices(const PieceBytes& bytes, const ChangedHint& hint, const ChangeOutput& out,
                      std::size_t& found);

  const BlockMap& map_;
  std::span<const ChangedHint* const> hints_;
  const kernels::KernelSet& kernels_;
  std::uint32_t array_ = 0;  // the array of the list of indices that contains next_
  std::size_t next_ = 0;
};

}  // namespace sparcl::codec
