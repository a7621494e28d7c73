#pragma once
// Where an encoder reads the elements of its arrays.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.hpp"
#include "src/codec/block_view.hpp"

namespace sparcl::codec {

// Elements that do not lie in memory as they are coded: a cast of wider ones, the state of an
// earlier version, a GPU's memory.
class ArraySource {
 public:
  virtual ~ArraySource() = default;
  // Writes elements [first, first + count) of an array, in the map's type. By several threads at
  // once.
  virtual void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                    std::byte* out) const = 0;
  // Whether there is such an array.
  virtual bool has(std::uint32_t) const { return true; }
  // What was read is good. Else it is rubbish, and whoever made something of it asks this before
  // anybody sees it.
  virtual Status status() const { return {}; }
};

// Each array from a source of its own. All outlive it.
class RoutedSource final : public ArraySource {
 public:
  // sources: one an array; nullptr where none is asked for.
  explicit RoutedSource(std::vector<const ArraySource*> sources) : sources_(std::move(sources)) {}
  void read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
            std::byte* out) const override {
    sources_[array]->read(array, first, count, out);
  }
  Status status() const override;

 private:
  std::vector<const ArraySource*> sources_;
};

// Arrays in memory; those that are nullptr come from the source, if there is one.
struct ArrayInput {
  std::vector<const std::byte*> arrays;
  const ArraySource* source = nullptr;

  bool has(std::uint32_t array) const {
    return arrays[array] != nullptr || (source != nullptr && source->has(array));
  }
  // Elements that has(), where they lie, or made into `scratch`.
  const std::byte* read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                        std::size_t width, std::vector<std::byte>& scratch) const;
};

// One block of such arrays.
class BlockInput {
 public:
  // Where it lies, or made here. Valid until the next read(); input and pieces outlive it. Every
  // piece has() its array.
  BlockView read(const ArrayInput& input, BlockShape shape, std::span<const Piece> pieces);

 private:
  std::vector<std::byte> made_;
  const std::byte* array_ = nullptr;
  Piece piece_{};
};

// Of a view that may be made: the elements of a piece of the map's.
inline const std::byte* data_of(const BlockView& view, std::span<const Piece> pieces,
                                const Piece& piece) {
  if (view.pieces.data() == pieces.data()) return view.data(piece);
  return view.data(view.pieces.front()) + piece.offset * view.shape.element_bytes();
}

}  // namespace sparcl::codec
