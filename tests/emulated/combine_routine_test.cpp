// The block routine that combines rows, run on the host against the ranks' tree there: all types
// and operations, bit for bit.

#include <gtest/gtest.h>

#include "kernels/kernel_set.hpp"
#include "src/sparse/parts/rank_tree.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "tests/emulated/combine_types.hpp"

namespace sparcl::test {
namespace {

using kernels::ReduceOp;
using kernels::cuda::CombineWork;

// Any pattern of bits: NaN with payloads, infinities, -0 and denormals among them; or numbers near
// each other.
std::vector<std::byte> row_values(DataType type, std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::size_t width = element_bytes(type);
  std::vector<std::byte> values(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t bits = random();
    const std::uint64_t kind = bits >> 60;
    if (kind < 2) bits = 0;
    if (kind == 2) bits = std::uint64_t{1} << (8 * width - 1);  // -0
    if (kind == 3) bits = random() % 5;                         // denormals, and small integers
    if (kind > 8 && info(type).is_float) bits &= ~(std::uint64_t{1} << (8 * width - 2));  // below 2
    std::memcpy(values.data() + i * width, &bits, width);
  }
  return values;
}

void compare(DataType type, ReduceOp op, bool is_mean, std::uint32_t ranks, std::size_t count,
             std::size_t stride, bool in_place) {
  const std::size_t width = element_bytes(type);
  std::vector<std::byte> rows = row_values(type, stride * ranks, ranks * 1000 + count),
                         wanted(count * width);
  std::vector<const std::byte*> by_rank;
  const auto copy = rows;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    by_rank.push_back(copy.data() + rank * stride * width);
  sparse::RankTree(kernels::reference_kernels().reduce_of(type), {op, is_mean},
                   static_cast<int>(ranks))
      .reduce(by_rank, width, count, wanted.data());
  std::vector<std::byte> apart(count * width, std::byte{0x5a});
  std::byte* const result = in_place ? rows.data() + ranks / 2 * stride * width : apart.data();
  const CombineWork work{{rows.data(), stride * width, ranks, count}, is_mean ? ranks : 1, result};
  emulated::launch<CombineLevels>(
      combine_blocks_of(count, type), kernels::cuda::kThreads, count,
      [&](CombineLevels& levels) { combine_columns_of(levels, work, type, op); });
  EXPECT_EQ(std::memcmp(result, wanted.data(), wanted.size()), 0)
      << info(type).name << ", operation " << static_cast<int>(op) << (is_mean ? ", mean" : "")
      << ", " << ranks << " ranks, " << count << " elements";
}

TEST(CombineRoutine, EachTypeAndOperation) {
  for (const DataType type : kCombinedTypes) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
      for (const std::uint32_t ranks : {1U, 2U, 3U, 8U})
        compare(type, op, false, ranks, 1500, 1504, ranks == 3);
    }
    for (const std::uint32_t ranks : {1U, 2U, 3U, 7U})
      compare(type, ReduceOp::kSum, true, ranks, 1500, 1504, ranks == 7);
  }
}

// Sums of floats show the tree.
TEST(CombineRoutine, AnyNumberOfRanks) {
  for (std::uint32_t ranks = 1; ranks < 40; ++ranks) {
    compare(DataType::kFloat32, ReduceOp::kSum, false, ranks, 300, 300, ranks % 2 == 0);
    compare(DataType::kBfloat16, ReduceOp::kSum, true, ranks, 300, 304, false);
  }
  for (const std::uint32_t ranks :
       {63U, 64U, 65U, 127U, 257U, 511U, 1021U, 1023U, kernels::kMaxCombinedRows})
    compare(DataType::kFloat32, ReduceOp::kSum, true, ranks, 40, 40, false);
}

TEST(CombineRoutine, AnyLength) {
  for (const std::size_t count :
       {1UL, 255UL, 256UL, 257UL, 511UL, 513UL, 1023UL, 1024UL, 1025UL, 2049UL}) {
    compare(DataType::kFloat64, ReduceOp::kSum, true, 5, count, count, true);
    compare(DataType::kFloat8e5m2, ReduceOp::kSum, false, 5, count, count + 3, true);
  }
}

}  // namespace
}  // namespace sparcl::test
