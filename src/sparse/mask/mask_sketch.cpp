#include "src/sparse/mask/mask_sketch.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

namespace sparcl::sparse {

static_assert(std::is_trivially_copyable_v<MaskSketch>);

MaskSketch mask_sketch_in(std::span<const std::byte> bytes) {
  MaskSketch sketch;
  std::memcpy(&sketch, bytes.data(), sizeof sketch);
  return sketch;
}

std::string describe(const MaskSketch& mask) {
  switch (mask.kind) {
    case MaskKind::kIndices:
      return fmt::format("indices, {} elements, hash {:016x}", mask.nnz, mask.identity);
    case MaskKind::kRandom:
      return fmt::format("random, density {:g}, {} elements, seed {}, step {}", mask.density,
                         mask.nnz, mask.seed, mask.step);
    case MaskKind::kBlocks:
      return fmt::format("blocks of {}, density {:g}, {} elements, seed {}, step {}", mask.block,
                         mask.density, mask.nnz, mask.seed, mask.step);
    case MaskKind::kNone:
      break;
  }
  return "of an unknown kind";
}

std::string what_differs(const MaskSketch& a, const MaskSketch& b) {
  if (a.kind != b.kind) return "kind";
  if (a.kind == MaskKind::kIndices)
    return a.nnz != b.nnz || a.identity != b.identity ? "indices" : "";
  std::vector<std::string> what;
  if (a.block != b.block) what.emplace_back("block");
  // By their bits: over the wire a NaN may come, which is unlike itself.
  if (std::bit_cast<std::uint64_t>(a.density) != std::bit_cast<std::uint64_t>(b.density))
    what.emplace_back("density");
  if (a.seed != b.seed) what.emplace_back("seed");
  if (a.step != b.step) what.emplace_back("step");
  return fmt::format("{}", fmt::join(what, ", "));
}

}  // namespace sparcl::sparse
