#include <cblas.h>

#include "matmul.hpp"

namespace training {
namespace {

// Before main: ranks are our threads, and each computes alone.
[[maybe_unused]] const bool one_thread_each = [] {
  openblas_set_num_threads(1);
  return true;
}();

}  // namespace

void matmul(Matrix c, ConstMatrix a, ConstMatrix b, float scale, Store store) {
  cblas_sgemm(CblasRowMajor, a.is_transposed ? CblasTrans : CblasNoTrans,
              b.is_transposed ? CblasTrans : CblasNoTrans, c.rows, c.cols, a.cols, scale, a.data,
              a.stride, b.data, b.stride, store == Store::kAdd ? 1.0F : 0.0F, c.data, c.stride);
}

}  // namespace training
