#include "src/codec/cast_source.hpp"

#include <algorithm>
#include <cstring>

#include "src/base/float_environment.hpp"

namespace sparcl::codec {
namespace {

constexpr std::uint64_t kCastAtOnce = 1024;

}  // namespace

bool can_be_cast_to(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBfloat16 ||
         type == DataType::kFloat8e4m3 || type == DataType::kFloat8e5m2;
}

void CastSource::read(std::uint32_t array, std::uint64_t first, std::uint64_t count,
                      std::byte* out) const {
  const FloatEnvironment exact;
  const DataType type = map_.arrays()[array].datatype;
  const std::size_t width = element_bytes(type);
  const auto* const master = reinterpret_cast<const std::byte*>(masters_[array]);
  alignas(kernels::kAccumulatorAlignment) float aligned[kCastAtOnce];
  for (std::uint64_t done = 0; done < count; done += kCastAtOnce) {
    const std::uint64_t some = std::min(kCastAtOnce, count - done);
    if (master != nullptr) {
      std::memcpy(aligned, master + (first + done) * sizeof(float),
                  some * sizeof(float));  // it has any alignment
    } else {
      elsewhere_->read(array, first + done, some, reinterpret_cast<std::byte*>(aligned));
    }
    kernels_.reduce_of(type).narrow(reinterpret_cast<const std::byte*>(aligned), some,
                                    out + done * width);
  }
}

}  // namespace sparcl::codec
