// The kernel that combines rows on a GPU, against the host's tree over ranks, bit for bit.

#include "kernels/cuda/cuda_combine.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "kernels/kernel_set.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using kernels::ReduceOp;

class DeviceCombine : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};

constexpr std::size_t kColumns = 100'003;

void compare_rows(DataType type, ReduceOp op, bool is_mean, std::uint32_t ranks, bool in_place) {
  const std::size_t width = element_bytes(type), row = kColumns * width;
  std::mt19937_64 random(ranks);
  std::vector<std::uint8_t> rows(row * ranks), wanted(row);
  for (std::uint8_t& byte : rows)
    byte = static_cast<std::uint8_t>(random() % 5 == 0 ? 0 : random());
  std::vector<const std::byte*> by_rank;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    by_rank.push_back(reinterpret_cast<const std::byte*>(rows.data() + rank * row));
  sparse::RankTree(kernels::reference_kernels().reduce_of(type), {op, is_mean},
                   static_cast<int>(ranks))
      .reduce(by_rank, width, kColumns, reinterpret_cast<std::byte*>(wanted.data()));
  const DeviceArray<std::uint8_t> there(rows), apart(std::vector<std::uint8_t>(row, 1));
  std::uint8_t* const result = in_place ? there.data() : apart.data();
  ASSERT_TRUE(kernels::cuda::combine_rows({there.data(), row, ranks, kColumns}, type, op, is_mean,
                                          result, nullptr)
                  .ok());
  must(cudaDeviceSynchronize());
  const std::vector<std::uint8_t> found = in_place ? there.read() : apart.read();
  EXPECT_EQ(std::memcmp(found.data(), wanted.data(), row), 0)
      << info(type).name << ", operation " << static_cast<int>(op) << (is_mean ? ", mean" : "")
      << ", " << ranks << " ranks";
}

TEST_F(DeviceCombine, EachTypeAndOperation) {
  for (int number = 0; number <= static_cast<int>(DataType::kBool); ++number) {
    if (find_data_type(number) == nullptr) continue;
    const auto type = static_cast<DataType>(number);
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      for (const std::uint32_t ranks : {1U, 3U, 8U})
        compare_rows(type, op, false, ranks, ranks == 3);
    }
    compare_rows(type, ReduceOp::kSum, true, 7, false);
  }
}

TEST_F(DeviceCombine, AnyNumberOfRanks) {
  for (const std::uint32_t ranks : {2U, 4U, 5U, 6U, 7U, 9U, 13U, 64U, 129U})
    compare_rows(DataType::kFloat32, ReduceOp::kSum, false, ranks, true);
}

TEST_F(DeviceCombine, WhatItDoesNotTake) {
  EXPECT_FALSE(kernels::cuda::combine_rows({nullptr, 0, 0, 1}, DataType::kInt8, ReduceOp::kSum,
                                           false, nullptr, nullptr)
                   .ok());
  EXPECT_FALSE(kernels::cuda::combine_rows({nullptr, 0, kernels::kMaxCombinedRows + 1, 1},
                                           DataType::kInt8, ReduceOp::kSum, false, nullptr, nullptr)
                   .ok());
  EXPECT_TRUE(kernels::cuda::combine_rows({nullptr, 0, 1, 0}, DataType::kInt8, ReduceOp::kSum,
                                          false, nullptr, nullptr)
                  .ok());
}

}  // namespace
}  // namespace sparcl::test
