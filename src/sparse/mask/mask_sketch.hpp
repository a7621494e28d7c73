#pragma once
// A mask in a few bytes, so that ranks can report how their masks differ.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sparcl::sparse {

enum class MaskKind : std::uint64_t { kNone = 0, kIndices = 1, kRandom = 2, kBlocks = 3 };

// Travels as it lies here: no padding, and any bits may come over the wire.
struct MaskSketch {
  MaskKind kind = MaskKind::kNone;
  std::uint64_t nnz = 0;       // elements in the mask
  std::uint64_t identity = 0;  // Mask::identity(), of indices
  std::uint64_t block = 0;     // elements; kBlocks
  double density = 0;          // as it was given; kRandom, kBlocks
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

// Reads received bytes, at least as many as a sketch has.
MaskSketch mask_sketch_in(std::span<const std::byte> bytes);

// "random, density 0.1, 100 elements, seed 7, step 3"; "indices, 50 elements, hash
// 0123456789abcdef".
std::string describe(const MaskSketch& mask);

// "kind"; "density, step"; empty if they are equal.
std::string what_differs(const MaskSketch& a, const MaskSketch& b);

}  // namespace sparcl::sparse
