#include "kernels/cuda/combine_block.cuh"
#include "kernels/cuda/combine_launcher.hpp"

namespace sparcl::kernels::cuda {
namespace {

template <DataType kType, ReduceOp kOp>
__global__ void __launch_bounds__(kThreads) combine_kernel(CombineWork work) {
  combine_columns<kType, kOp>(work);
}

template <DataType kType>
cudaError_t launch_of(const CombineWork& work, ReduceOp op, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(
      combine_tiles(work.rows.count, sizeof(typename Combined<kType>::Accumulator)));
  switch (op) {
    case ReduceOp::kSum:
      combine_kernel<kType, ReduceOp::kSum><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case ReduceOp::kProd:
      combine_kernel<kType, ReduceOp::kProd><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case ReduceOp::kMax:
      combine_kernel<kType, ReduceOp::kMax><<<blocks, kThreads, 0, stream>>>(work);
      break;
    case ReduceOp::kMin:
      combine_kernel<kType, ReduceOp::kMin><<<blocks, kThreads, 0, stream>>>(work);
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
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
