#pragma once
// The sources from which an encoder reads the elements of its arrays.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

// Elements that are not in memory as they are coded: a cast of wider ones, the state of an earlier
// version, a GPU's memory.
class ArraySource {
 public:
  virtual ~ArraySource() = default;
  // Writes elements [first, first + count) of an array, in the map's type. Several threads may call
  // it at once.
  virtual void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                    std::byte* out) const = 0;
  // Whether the source has this array.
  virtual bool has(std::uint32_t) const { return true; }
  // Whether all reads succeeded. After an error the elements are undefined. Callers check this
  // before they use results made from them.
  virtual Status status() const { return {}; }
};

// Reads each array from a source of its own. All sources outlive it.
class RoutedSource final : public ArraySource {
 public:
  // sources: one for each array; nullptr for arrays that are not read.
  explicit RoutedSource(std::vector<const ArraySource*> sources) : sources_(std::move(sources)) {}
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override {
    sources_[array]->read(array, first, count, out);
  }
  Status status() const override;

 private:
  std::vector<const ArraySource*> sources_;
};

// Arrays in memory; arrays that are nullptr come from the source, if there is one.
struct ArrayInput {
  std::vector<const std::byte*> arrays;
  const ArraySource* source = nullptr;

  bool has(std::uint32_t array) const {
    return arrays[array] != nullptr || (source != nullptr && source->has(array));
  }
  // Elements of an array that has() accepts: in place, or written into `scratch`.
  const std::byte* read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                        std::size_t width, std::vector<std::byte>& scratch) const;
};

// Reads one block of such arrays.
class BlockInput {
 public:
  // The block in place, or assembled here. Valid until the next read(); input and pieces outlive
  // it. has() accepts the array of every piece.
  BlockView read(const ArrayInput& input, BlockShape shape, std::span<const Piece> pieces);

 private:
  std::vector<std::byte> made_;
  const std::byte* array_ = nullptr;
  Piece piece_{};
};

// The elements of a piece of the map's, from a view that may be assembled.
inline const std::byte* data_of(const BlockView& view, std::span<const Piece> pieces,
                                const Piece& piece) {
  if (view.pieces.data() == pieces.data()) return view.data(piece);
  return view.data(view.pieces.front()) + piece.offset * view.shape.element_bytes();
}

}  // namespace sparcl::codec
