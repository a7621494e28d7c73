#include "kernels/cuda/combine_block.cuh"
#include "kernels/cuda/combine_launcher.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <DataType kType, ReduceOp kOp>
__global__ void __launch_bounds__(kThreads, kResident) combine_kernel(CombineWork work) {
  extern __shared__ std::uint64_t levels[];
  combine_columns<kType, kOp>(levels, work);
}

template <DataType kType, ReduceOp kOp>
cudaError_t launch_one(const CombineWork& work, cudaStream_t stream) {
  constexpr std::size_t kWithoutAsking = 48 << 10;
  constexpr std::size_t kWidth = sizeof(typename Combined<kType>::Stored);
  const auto blocks = static_cast<unsigned>(combine_tiles(work.rows.count, kWidth));
  const std::size_t shared = combine_level_bytes(work.rows.ranks, kWidth);
  if (shared > kWithoutAsking) {
    const cudaError_t error = cudaFuncSetAttribute(combine_kernel<kType, kOp>,
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(kMaxLevelBytes));
    if (error != cudaSuccess) return error;
  }
  combine_kernel<kType, kOp><<<blocks, kThreads, shared, stream>>>(work);
  return cudaGetLastError();
}

template <DataType kType>
cudaError_t launch_of(const CombineWork& work, ReduceOp op, cudaStream_t stream) {
  switch (op) {
    case ReduceOp::kSum:
      return launch_one<kType, ReduceOp::kSum>(work, stream);
    case ReduceOp::kProd:
      return launch_one<kType, ReduceOp::kProd>(work, stream);
    case ReduceOp::kMax:
      return launch_one<kType, ReduceOp::kMax>(work, stream);
    case ReduceOp::kMin:
      return launch_one<kType, ReduceOp::kMin>(work, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_combine(const CombineWork& work, DataType type, ReduceOp op,
                           cudaStream_t stream) {
  switch (type) {
    case DataType::kInt8:
      return launch_of<DataType::kInt8>(work, op, stream);
    case DataType::kUint8:
      return launch_of<DataType::kUint8>(work, op, stream);
    case DataType::kInt16:
      return launch_of<DataType::kInt16>(work, op, stream);
    case DataType::kUint16:
      return launch_of<DataType::kUint16>(work, op, stream);
    case DataType::kInt32:
      return launch_of<DataType::kInt32>(work, op, stream);
    case DataType::kUint32:
      return launch_of<DataType::kUint32>(work, op, stream);
    case DataType::kInt64:
      return launch_of<DataType::kInt64>(work, op, stream);
    case DataType::kUint64:
      return launch_of<DataType::kUint64>(work, op, stream);
    case DataType::kFloat16:
      return launch_of<DataType::kFloat16>(work, op, stream);
    case DataType::kBfloat16:
      return launch_of<DataType::kBfloat16>(work, op, stream);
    case DataType::kFloat32:
      return launch_of<DataType::kFloat32>(work, op, stream);
    case DataType::kFloat64:
      return launch_of<DataType::kFloat64>(work, op, stream);
    case DataType::kFloat8e4m3:
      return launch_of<DataType::kFloat8e4m3>(work, op, stream);
    case DataType::kFloat8e5m2:
      return launch_of<DataType::kFloat8e5m2>(work, op, stream);
    case DataType::kBool:
      return launch_of<DataType::kBool>(work, op, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace sparcl::kernels::cuda
