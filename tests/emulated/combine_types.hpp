#pragma once
// All types and operations that rows are combined by, from what a test knows when it runs. After
// the emulation.

#include <cstdlib>
#include <type_traits>

#include "kernels/cuda/combine_block.cuh"

namespace sparcl::test {

constexpr DataType kCombinedTypes[] = {
    DataType::kInt8,    DataType::kUint8,      DataType::kInt16,     DataType::kUint16,
    DataType::kInt32,   DataType::kUint32,     DataType::kInt64,     DataType::kUint64,
    DataType::kFloat16, DataType::kFloat32,    DataType::kFloat64,   DataType::kBfloat16,
    DataType::kBool,    DataType::kFloat8e4m3, DataType::kFloat8e5m2};

// visit(std::integral_constant<DataType, ...>), in turn, for the one it is.
template <std::size_t kFrom = 0, class Visit>
void with_combined_type(DataType type, const Visit& visit) {
  if constexpr (kFrom == std::size(kCombinedTypes))
    std::abort();
  else if (type == kCombinedTypes[kFrom])
    visit(std::integral_constant<DataType, kCombinedTypes[kFrom]>());
  else
    with_combined_type<kFrom + 1>(type, visit);
}

struct CombineLevels {
  alignas(16) std::byte bytes[kernels::cuda::kMaxLevelBytes];
};

// The routine that the launcher takes.
inline void combine_columns_of(CombineLevels& levels, const kernels::cuda::CombineWork& work,
                               DataType type, kernels::ReduceOp op) {
  using kernels::ReduceOp;
  with_combined_type(type, [&](auto known) {
    constexpr DataType kType = decltype(known)::value;
    switch (op) {
      case ReduceOp::kSum:
        return kernels::cuda::combine_columns<kType, ReduceOp::kSum>(levels.bytes, work);
      case ReduceOp::kProd:
        return kernels::cuda::combine_columns<kType, ReduceOp::kProd>(levels.bytes, work);
      case ReduceOp::kMax:
        return kernels::cuda::combine_columns<kType, ReduceOp::kMax>(levels.bytes, work);
      case ReduceOp::kMin:
        return kernels::cuda::combine_columns<kType, ReduceOp::kMin>(levels.bytes, work);
    }
  });
}

inline unsigned combine_blocks_of(std::uint64_t count, DataType type) {
  std::uint64_t blocks = 0;
  with_combined_type(type, [&](auto known) {
    blocks = kernels::cuda::combine_tiles(
        count, sizeof(typename kernels::cuda::Combined<decltype(known)::value>::Stored));
  });
  return static_cast<unsigned>(blocks);
}

}  // namespace sparcl::test
