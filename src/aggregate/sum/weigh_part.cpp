#include "src/aggregate/sum/weigh_part.hpp"

#include <algorithm>

#include "src/aggregate/sum/facts.hpp"
#include "src/base/bytes.hpp"
#include "src/sparse/selection/residual.hpp"

namespace sparcl::aggregate {
namespace {

constexpr std::size_t kEntriesAt = 16, kValuesAt = 24;  // in the head of a part

std::uint64_t entries_in(std::span<const std::byte> part) {
  return load_le<std::uint64_t>(part.data() + kEntriesAt);
}

// float32 values in a part, which begin at a multiple of 8 bytes.
std::span<float> as_floats(std::byte* values, std::uint64_t count) {
  return {reinterpret_cast<float*>(values), count};
}

}  // namespace

Buffer weigh_part(BufferSource& buffers, const kernels::KernelSet& kernels,
                  std::span<const std::byte> part, DataType type, float clip, float weight) {
  const std::uint64_t count = entries_in(part);
  const std::byte* const given = part.data() + load_le<std::uint64_t>(part.data() + kValuesAt);
  std::byte* values = nullptr;
  Buffer weighed = sparse::with_room(buffers, part, element_bytes(type), sizeof(float), values);
  sparse::widen_from_wire(kernels, {DataType::kFloat32, type}, given, count, values);
  const std::span<float> own = as_floats(values, count);
  weigh(own, clip, weight, own);
  return weighed;
}

Buffer weights_part(BufferSource& buffers, std::span<const std::byte> part, DataType type,
                    float weight) {
  std::byte* values = nullptr;
  Buffer weights = sparse::with_room(buffers, part, element_bytes(type), sizeof(float), values);
  std::ranges::fill(as_floats(values, entries_in(part)), weight);
  return weights;
}

}  // namespace sparcl::aggregate
