#pragma once
// The one function that multiplies matrices: by OpenBLAS if CMake finds it, else by a blocked loop.

#include <cstddef>

namespace training {

// Row-major views into the caller's floats; stride is the distance of two rows in memory.
struct ConstMatrix {
  const float* data;
  int rows, cols, stride;
  bool is_transposed = false;

  ConstMatrix transposed() const { return {data, cols, rows, stride, !is_transposed}; }
  float at(int row, int col) const {
    return is_transposed ? data[static_cast<std::ptrdiff_t>(col) * stride + row]
                         : data[static_cast<std::ptrdiff_t>(row) * stride + col];
  }
};

struct Matrix {
  float* data;
  int rows, cols, stride;

  operator ConstMatrix() const { return {data, rows, cols, stride}; }
  ConstMatrix transposed() const { return ConstMatrix(*this).transposed(); }
  float* row(int index) const { return data + static_cast<std::ptrdiff_t>(index) * stride; }
};

enum class Store { kReplace, kAdd };

// c = scale * a * b, or c += scale * a * b.
void matmul(Matrix c, ConstMatrix a, ConstMatrix b, float scale = 1, Store store = Store::kReplace);

// matmul() without a BLAS; always built, so that it stays tested.
void matmul_blocked(Matrix c, ConstMatrix a, ConstMatrix b, float scale = 1,
                    Store store = Store::kReplace);

}  // namespace training
