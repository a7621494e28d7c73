#include <cblas.h>

#include "matmul.hpp"

namespace training {

void matmul(Matrix c, ConstMatrix a, ConstMatrix b, float scale, Store store) {
  cblas_sgemm(CblasRowMajor, a.is_transposed ? CblasTrans : CblasNoTrans, b.is_transposed ? CblasTrans : CblasNoTrans, c.rows,
              c.cols, a.cols, scale, a.data, a.stride, b.data, b.stride, store == Store::kAdd ? 1.0F : 0.0F, c.data, c.stride);
}

const char* prepare_matmul() {
  openblas_set_num_threads(1);
  return "OpenBLAS";
}

}  // namespace training
