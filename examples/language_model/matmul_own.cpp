#include "matmul.hpp"

namespace training {

void matmul(Matrix c, ConstMatrix a, ConstMatrix b, float scale, Store store) {
  matmul_blocked(c, a, b, scale, store);
}

}  // namespace training
