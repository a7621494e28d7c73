// A plain blocked product: both operands are packed into small dense tiles, so that the innermost
// loop runs over consecutive floats. Compilers then turn it into SIMD without -ffast-math, because
// it adds rows and never reassociates a sum.
#include <algorithm>
#include <vector>

#include "matmul.hpp"

namespace training {
namespace {

constexpr int kTileDepth =
    64;  // heuristic: a tile of b (64 x 128 floats, 32 KiB) stays in the first or second cache
constexpr int kTileCols = 128;

void pack(ConstMatrix from, int row, int rows, int col, int cols, float* to) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < cols; ++j) *to++ = from.at(row + i, col + j);
  }
}

}  // namespace

void matmul_blocked(Matrix c, ConstMatrix a, ConstMatrix b, float scale, Store store) {
  const int depth = a.cols;
  std::vector<float> b_tile(kTileDepth * kTileCols);
  std::vector<float> a_row(kTileDepth);
  if (store == Store::kReplace) {
    for (int i = 0; i < c.rows; ++i) std::fill_n(c.row(i), c.cols, 0.0F);
  }
  for (int col = 0; col < c.cols; col += kTileCols) {
    const int cols = std::min(kTileCols, c.cols - col);
    for (int k = 0; k < depth; k += kTileDepth) {
      const int depth_here = std::min(kTileDepth, depth - k);
      pack(b, k, depth_here, col, cols, b_tile.data());
      for (int i = 0; i < c.rows; ++i) {
        pack(a, i, 1, k, depth_here, a_row.data());
        float* const out = c.row(i) + col;
        for (int step = 0; step < depth_here; ++step) {
          const float factor = scale * a_row[static_cast<std::size_t>(step)];
          const float* const in = b_tile.data() + static_cast<std::ptrdiff_t>(step) * cols;
          for (int j = 0; j < cols; ++j) out[j] += factor * in[j];
        }
      }
    }
  }
}

}  // namespace training
