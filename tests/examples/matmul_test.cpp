#include "examples/language_model/matmul.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <ostream>
#include <vector>

#include "examples/language_model/seeded_random.hpp"

namespace training {
namespace {

struct Body {
  const char* name;
  void (*multiply)(Matrix, ConstMatrix, ConstMatrix, float, Store);
};
void PrintTo(const Body& body, std::ostream* out) { *out << body.name; }

// Small integers: every order of summation gives the same floats.
std::vector<float> draw(int count, SeededRandom& random) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.below(9)) - 4;
  return values;
}

struct Sizes {
  int rows, depth, cols;
};

class MatmulTest : public testing::TestWithParam<Body> {
 protected:
  void expect_product(const Sizes& size, bool transpose_a, bool transpose_b, Store store) {
    constexpr int kGap = 3;  // columns of the memory that do not belong to the matrix
    SeededRandom random(1, 2);
    const int a_rows = transpose_a ? size.depth : size.rows;
    const int a_cols = transpose_a ? size.rows : size.depth;
    const int b_rows = transpose_b ? size.cols : size.depth;
    const int b_cols = transpose_b ? size.depth : size.cols;
    const std::vector<float> a_memory = draw(a_rows * (a_cols + kGap), random);
    const std::vector<float> b_memory = draw(b_rows * (b_cols + kGap), random);
    std::vector<float> c_memory = draw(size.rows * (size.cols + kGap), random);
    ConstMatrix a{a_memory.data(), a_rows, a_cols, a_cols + kGap};
    ConstMatrix b{b_memory.data(), b_rows, b_cols, b_cols + kGap};
    if (transpose_a) a = a.transposed();
    if (transpose_b) b = b.transposed();
    const Matrix c{c_memory.data(), size.rows, size.cols, size.cols + kGap};

    std::vector<float> expected = c_memory;
    for (int i = 0; i < size.rows; ++i) {
      for (int j = 0; j < size.cols; ++j) {
        float sum = 0;
        for (int k = 0; k < size.depth; ++k) sum += a.at(i, k) * b.at(k, j);
        float& place = expected[static_cast<std::size_t>(i * c.stride + j)];
        place = 0.5F * sum + (store == Store::kAdd ? place : 0);
      }
    }
    GetParam().multiply(c, a, b, 0.5F, store);
    EXPECT_EQ(c_memory, expected) << size.rows << " x " << size.depth << " x " << size.cols
                                  << transpose_a << transpose_b;
  }
};

TEST_P(MatmulTest, EqualsThePlainSum) {
  for (const Sizes& size : {Sizes{1, 1, 1}, Sizes{3, 2, 5}, Sizes{64, 64, 128}, Sizes{7, 65, 129},
                            Sizes{33, 130, 257}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        expect_product(size, transpose_a, transpose_b, Store::kReplace);
        expect_product(size, transpose_a, transpose_b, Store::kAdd);
      }
    }
  }
}

TEST_P(MatmulTest, ReplacesWhateverWasThere) {
  const std::vector<float> ones(4, 1.0F);
  std::vector<float> c(4, std::numeric_limits<float>::quiet_NaN());
  GetParam().multiply({c.data(), 2, 2, 2}, {ones.data(), 2, 2, 2}, {ones.data(), 2, 2, 2}, 1,
                      Store::kReplace);
  EXPECT_EQ(c, std::vector<float>(4, 2.0F));
}

// With OpenBLAS the two differ; without it they are the same.
INSTANTIATE_TEST_SUITE_P(Bodies, MatmulTest,
                         testing::Values(Body{"chosen", &matmul},
                                         Body{"own_loop", &matmul_blocked}));

}  // namespace
}  // namespace training
