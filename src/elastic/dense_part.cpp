#include "src/elastic/dense_part.hpp"

#include <algorithm>
#include <bit>

#include "src/base/float_environment.hpp"

namespace sparcl::elastic {
namespace {

std::byte* bytes_of(std::vector<float>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

}  // namespace

Result<PackedAll> pack_all(BufferSource& buffers, const kernels::KernelSet& kernels,
                           const sparse::BlockRun& run, const sparse::WireType& wire,
                           std::span<const float> values) {
  const FloatEnvironment ieee;  // a denormal is not 0
  constexpr auto kWidthLog2 = static_cast<std::size_t>(std::countr_zero(sizeof(float)));
  auto* const diff = kernels.elements[kWidthLog2].diff_values;
  sparse::PartWriter writer(buffers, kernels, run, element_bytes(wire.sent), values.size(),
                            run.blocks);
  const std::size_t room = run.block_elements() + kernels::kPositionSlack;
  const std::vector<float> zeros(room);
  std::vector<float> block_values(room), none(room), taken(room);
  PackedAll made;
  for (std::uint64_t block = 0; block < run.blocks; ++block) {
    const std::uint64_t first = block << run.block_log2;
    if (first >= values.size()) break;
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(run.block_elements(), values.size() - first));
    std::ranges::transform(values.subspan(first, count), block_values.begin(),
                           [](float value) { return value == 0 ? 0.0F : value; });  // -0 is 0
    const std::size_t found =
        diff(reinterpret_cast<const std::byte*>(zeros.data()), bytes_of(block_values), count,
             run.first_position(block), reinterpret_cast<std::uint16_t*>(writer.places()),
             bytes_of(none), bytes_of(taken));
    sparse::round_to_wire(kernels, wire, bytes_of(taken), found, writer.values());
    writer.end(block, found, false);
    made.entries += found;
  }
  Offered offered;
  offered.is_narrow = wire.sent == DataType::kBfloat16;
  SPARCL_ASSIGN_OR_RETURN(made.packed, pack_part(buffers, kernels, run, offered, writer.finish()));
  return made;
}

std::vector<float> rest_of_all(const kernels::KernelSet& kernels, const sparse::WireType& wire,
                               std::span<const float> values) {
  if (wire.is_exact()) return std::vector<float>(values.size());
  constexpr std::size_t kAtOnce = 16'384;
  std::vector<float> rest(values.begin(), values.end());
  std::vector<std::byte> sent(kAtOnce * element_bytes(wire.sent));
  for (std::size_t first = 0; first < rest.size(); first += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, rest.size() - first);
    auto* const own = reinterpret_cast<std::byte*>(rest.data() + first);
    sparse::round_to_wire(kernels, wire, own, count, sent.data());
    (void)sparse::leave_rest(kernels, wire, sent.data(), count, own);
  }
  return rest;
}

}  // namespace sparcl::elastic
