// The launches of masked sums: gather, scatter and canonical sums, against the bytes that they read
// and write.

#include <random>
#include <vector>

#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/cuda_combine.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;

// bytes: that are read and written at least.
void measure_mask(const std::string& what, const kernels::MaskPlaces& places, const float* array,
                  double bytes) {
  const DeviceArray<float> packed(places.count);
  float* const to = const_cast<float*>(array);
  const double gather_ms =
      median_ms([&] { must_be_ok(gather_mask(places, array, 4, packed.data(), nullptr)); });
  add_row("gather of a mask, " + what, gather_ms, [=] {
    return fmt::format("{:.2f} of what it moves at the copy's bandwidth",
                       floor_ms(bytes) / gather_ms);
  });
  const double scatter_ms =
      median_ms([&] { must_be_ok(scatter_mask(places, packed.data(), 4, to, nullptr)); });
  add_row("scatter of the same", scatter_ms,
          [=] { return fmt::format("{:.2f} of that", floor_ms(bytes) / scatter_ms); });
}

// One in each hundred elements: a sector of 32 bytes, a packed value and a position each.
void measure_elements(const DeviceArray<float>& array) {
  constexpr std::uint64_t kOneIn = 100, kOfBlock = kBlockElements / kOneIn;
  const std::uint64_t blocks = array.size() / kBlockElements;
  std::mt19937_64 random(1);
  std::vector<kernels::MaskPart> parts_here;
  std::vector<std::uint16_t> positions_here;
  for (std::uint64_t block = 0; block <= blocks; ++block) {
    parts_here.push_back({block, positions_here.size()});
    if (block == blocks) break;
    for (std::uint64_t i = 0; i < kOfBlock; ++i)
      positions_here.push_back(static_cast<std::uint16_t>(i * kOneIn + random() % kOneIn));
  }
  const DeviceArray<kernels::MaskPart> parts(parts_here);
  const DeviceArray<std::uint16_t> positions(positions_here);
  const std::uint64_t size = positions_here.size();
  measure_mask(fmt::format("1 % of {} Mi float32", array.size() >> 20),
               {.count = size,
                .parts = parts.data(),
                .part_count = blocks,
                .positions = positions.data(),
                .runs = nullptr},
               array.data(), static_cast<double>(size) * (32 + 4 + 2));
}

// Every tenth run.
void measure_runs(const DeviceArray<float>& array) {
  constexpr std::uint64_t kOneIn = 10, kRunElements = 256;
  std::vector<std::uint64_t> runs_here;
  for (std::uint64_t run = 0; run < array.size() / kRunElements; run += kOneIn)
    runs_here.push_back(run);
  const DeviceArray<std::uint64_t> runs(runs_here);
  const std::uint64_t size = runs_here.size() * kRunElements;
  measure_mask(fmt::format("10 % of {} Mi float32 in runs of {}", array.size() >> 20, kRunElements),
               {.count = size,
                .parts = nullptr,
                .positions = nullptr,
                .runs = runs.data(),
                .run_elements = kRunElements},
               array.data(), 8.0 * static_cast<double>(size));
}

// The rows together have as many elements as the array.
void measure_combining(const DeviceArray<float>& array, std::uint32_t ranks) {
  const DeviceArray<float> result(array.size() / ranks);
  const std::uint64_t bytes = result.size() * sizeof(float);
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16}) {
    const kernels::DeviceRows rows{array.data(), bytes, ranks,
                                   bytes / (type == DataType::kFloat32 ? 4 : 2)};
    const double ms = median_ms([&] {
      must_be_ok(combine_rows(rows, type, kernels::ReduceOp::kSum, true, result.data(), nullptr));
    });
    add_row(fmt::format("{} rows of {} Mi {} to their mean, in the ranks' tree", ranks,
                        rows.count >> 20, type == DataType::kFloat32 ? "float32" : "bf16"),
            ms, [=] {
              return fmt::format("{:.2f} of what it moves at the copy's bandwidth",
                                 floor_ms(static_cast<double>((ranks + 1) * bytes)) / ms);
            });
  }
}

}  // namespace

void measure_masks(std::uint64_t count) {
  const DeviceArray<float> array(count);
  measure_elements(array);
  measure_runs(array);
  for (const std::uint32_t ranks : {2U, 8U, 64U}) measure_combining(array, ranks);
}

}  // namespace sparcl::bench
