// Sparse entries: merge, gather, scatter, values of 8 bits.

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/cuda_entries.hpp"
#include "kernels/cuda/cuda_scaled.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

struct Entries {
  explicit Entries(std::uint64_t room) : indices(room), values(room), count(1) {}
  kernels::DeviceEntries device() const { return {indices.data(), values.data(), count.data()}; }
  DeviceArray<std::uint64_t> indices;
  DeviceArray<float> values;
  DeviceArray<std::uint64_t> count;
};

// Their values as codes of 8 bits and scales, and back.
void measure_scaled(const Entries& list, std::uint64_t count) {
  const std::uint64_t groups = kernels::scaled_groups(count);
  const DeviceArray<std::int8_t> codes(groups * kernels::kDeviceScaledGroup);
  const DeviceArray<std::uint16_t> exponents(groups);
  const DeviceArray<std::uint64_t> exact_count(1);
  const kernels::DeviceScaledValues scaled{codes.data(), exponents.data(), nullptr, 0,
                                           exact_count.data()};
  must(fill_normal(list.values.data(), count, 5, nullptr));
  const double encode_ms = median_ms([&] {
    must_be_ok(
        encode_scaled(list.values.data(), list.count.data(), count, scaled, nullptr, nullptr));
  });
  const double bytes = 5.0 * static_cast<double>(count);
  add_row(fmt::format("{} Mi float32 to codes of 8 bits", count >> 20), encode_ms, [=] {
    return fmt::format("{:.2f} of what is read and written at the copy's bandwidth",
                       floor_ms(bytes) / encode_ms);
  });
  const double decode_ms = median_ms([&] {
    must_be_ok(decode_scaled(scaled, list.count.data(), count, list.values.data(), nullptr));
  });
  add_row("and back", decode_ms,
          [=] { return fmt::format("{:.2f} of that", floor_ms(bytes) / decode_ms); });
}

}  // namespace

// Two lists of `count` entries of float32, of which about a half have an index that both have.
void measure_entries(std::uint64_t count) {
  const Entries a(count), b(count), out(2 * count);
  must(fill_entries(a.indices.data(), a.values.data(), count, 1, nullptr));
  must(fill_entries(b.indices.data(), b.values.data(), count, 2, nullptr));
  for (const Entries* list : {&a, &b})
    must(cudaMemcpy(list->count.data(), &count, sizeof count, cudaMemcpyHostToDevice));
  const DeviceArray<std::byte> workspace(merge_workspace_bytes(count, count));
  const double merge_ms = median_ms([&] {
    must_be_ok(merge_entries(a.device(), count, b.device(), count, out.device(), DataType::kFloat32,
                             workspace.data(), workspace.size(), nullptr));
  });
  const auto merged = static_cast<double>(out.count.read()[0]);
  const double each = 12.0 * static_cast<double>(count);
  add_row(fmt::format("merge of two times {} Mi entries, float32", count >> 20), merge_ms, [=] {
    return fmt::format("{:.2f} of what is read and written at the copy's bandwidth",
                       floor_ms(2 * each + 12 * merged) / merge_ms);
  });

  std::size_t bytes = 0;
  const auto peer = [&](void* space) {
    must(merge_pairs(space, &bytes, a.indices.data(), a.values.data(), b.indices.data(),
                     b.values.data(), count, out.indices.data(), out.values.data(), nullptr));
  };
  peer(nullptr);
  const DeviceArray<std::byte> space(bytes);
  const double peer_ms = median_ms([&] { peer(space.data()); });
  add_row("cub::DeviceMerge of the same, which sums nothing", peer_ms,
          [=] { return fmt::format("{:.2f} times ours", peer_ms / merge_ms); });

  // One element of 64: a sector of 32 bytes each.
  const DeviceArray<float> array(64 * count);
  const double gather_ms = median_ms([&] {
    must_be_ok(gather_entries(array.data(), false, DataType::kFloat32, a.device(), count, nullptr));
  });
  const double sectors = (8.0 + 4 + 32) * static_cast<double>(count);  // bytes
  add_row("gather at the entries' indices", gather_ms, [=] {
    return fmt::format("{:.2f} of its sectors at the copy's bandwidth",
                       floor_ms(sectors) / gather_ms);
  });
  const double scatter_ms = median_ms([&] {
    must_be_ok(scatter_entries(a.device(), count, 4, array.data(), DataType::kFloat32, nullptr));
  });
  add_row("scatter of means there", scatter_ms,
          [=] { return fmt::format("{:.2f} of that", floor_ms(sectors) / scatter_ms); });
  measure_scaled(b, count);
}

}  // namespace sparcl::bench
