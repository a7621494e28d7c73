#include "kernels/cuda/change_size.cuh"
#include "kernels/cuda/diff_tile.cuh"
#include "kernels/cuda/large_tile.cuh"
#include "kernels/cuda/threshold_launchers.hpp"
#include "kernels/cuda/with_type.cuh"

namespace sparcl::kernels::cuda {
namespace {

template <TopKType kType>
__global__ void __launch_bounds__(kThreads, kResident) large_kernel(LargeWork work) {
  __shared__ CompactionShared shared;
  take_large_tile<kType>(shared, work);
}

template <class Element>
__global__ void __launch_bounds__(kThreads, kResident) large_diff_kernel(LargeDiffWork work) {
  __shared__ DiffShared shared;
  diff_tile<typename Element::Word>(shared, work.diff, IsLargerThan<Element>{work.threshold});
}

template <class Element>
cudaError_t launch(const LargeDiffWork& work, cudaStream_t stream) {
  large_diff_kernel<Element>
      <<<static_cast<unsigned>(tile_count(work.diff.count)), kThreads, 0, stream>>>(work);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_take_large(const LargeWork& work, TopKType type, cudaStream_t stream) {
  return with_type(type, [&](auto known) {
    large_kernel<decltype(known)::value>
        <<<static_cast<unsigned>(tile_count(work.count)), kThreads, 0, stream>>>(work);
    return cudaGetLastError();
  });
}

cudaError_t launch_large_diff(const LargeDiffWork& work, DataType type, cudaStream_t stream) {
  switch (type) {
    case DataType::kInt8:
      return launch<NativeElement<std::int8_t>>(work, stream);
    case DataType::kUint8:
    case DataType::kBool:
      return launch<NativeElement<std::uint8_t>>(work, stream);
    case DataType::kInt16:
      return launch<NativeElement<std::int16_t>>(work, stream);
    case DataType::kUint16:
      return launch<NativeElement<std::uint16_t>>(work, stream);
    case DataType::kInt32:
      return launch<NativeElement<std::int32_t>>(work, stream);
    case DataType::kUint32:
      return launch<NativeElement<std::uint32_t>>(work, stream);
    case DataType::kInt64:
      return launch<NativeElement<std::int64_t>>(work, stream);
    case DataType::kUint64:
      return launch<NativeElement<std::uint64_t>>(work, stream);
    case DataType::kFloat16:
      return launch<SmallElement<Float16, std::uint16_t>>(work, stream);
    case DataType::kBfloat16:
      return launch<SmallElement<Bfloat16, std::uint16_t>>(work, stream);
    case DataType::kFloat8e4m3:
      return launch<SmallElement<Float8e4m3, std::uint8_t>>(work, stream);
    case DataType::kFloat8e5m2:
      return launch<SmallElement<Float8e5m2, std::uint8_t>>(work, stream);
    case DataType::kFloat32:
      return launch<NativeElement<float>>(work, stream);
    case DataType::kFloat64:
      return launch<NativeElement<double>>(work, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace sparcl::kernels::cuda
