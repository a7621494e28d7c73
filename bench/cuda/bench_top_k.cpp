// Top-k with error feedback, and selection by a threshold, beside one pass over the arrays and
// beside a sort.

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/cuda_threshold.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

struct Gradients {
  explicit Gradients(std::uint64_t elements)
      : count(elements), values(elements), residual(elements) {
    must(fill_normal(values.data(), count, 1, nullptr));
    renew();
  }
  void renew() const { must(fill_normal(residual.data(), count, 77, nullptr)); }
  std::uint64_t count;
  DeviceArray<float> values, residual;
};

// Milliseconds of top-k.
double measure_own(const Gradients& gradients, double floor) {
  const std::uint64_t count = gradients.count, k = count / 100;
  const DeviceArray<float> taken(k);
  const DeviceArray<std::uint64_t> indices(k), found(1);
  const DeviceArray<std::byte> memory(top_k_workspace_bytes(count, k, DataType::kFloat32));
  const Workspace workspace{memory.data(), memory.size()};
  TopK call{};
  call.values = gradients.values.data();
  call.residual = gradients.residual.data();
  call.count = count;
  call.k = k;
  call.clear_sent = true;
  call.indices = indices.data();
  call.taken = taken.data();
  call.found = found.data();
  const auto fresh = [&] { gradients.renew(); };
  const double ms =
      median_ms([&] { must_be_ok(top_k(call, DataType::kFloat32, workspace, nullptr)); }, fresh);
  add_row("top-k 1 % with feedback", ms,
          [=] { return fmt::format("{:.2f} of that pass (asked 2.5)", ms / floor); });

  TakeLarge large{};
  large.values = call.values;
  large.residual = call.residual;
  large.count = count;
  large.least = min_key(DataType::kFloat32, 3.6);  // 1 % of two normal numbers' sums
  large.clear_sent = true;
  large.capacity = k;
  large.indices = call.indices;
  large.taken = call.taken;
  large.found = call.found;
  const double large_ms = median_ms(
      [&] { must_be_ok(take_large(large, DataType::kFloat32, workspace, nullptr)); }, fresh);
  add_row("all above a threshold, 1 %, with feedback", large_ms,
          [=] { return fmt::format("{:.2f} of that pass", large_ms / floor); });
  return ms;
}

// Without selecting from the sorted keys, and clearing the selected values.
void measure_sort(const Gradients& gradients, double own_ms) {
  const std::uint64_t count = gradients.count;
  std::size_t bytes = 0;
  const DeviceArray<std::uint32_t> keys(count), numbers(count), sorted(count), sorted_keys(count);
  must(fill_random(numbers.data(), count, 3, nullptr));
  const auto sort = [&](void* space) {
    must(sort_pairs(space, &bytes, keys.data(), sorted_keys.data(), numbers.data(), sorted.data(),
                    count, nullptr));
  };
  const auto make_keys = [&] {
    must(add_and_key(gradients.values.data(), gradients.residual.data(), keys.data(), count,
                     nullptr));
  };
  sort(nullptr);
  const DeviceArray<std::byte> space(bytes);
  gradients.renew();
  make_keys();
  const double alone_ms = median_ms([&] { sort(space.data()); });
  add_row("cub::DeviceRadixSort of its keys, alone", alone_ms,
          [=] { return fmt::format("{:.1f} times ours", alone_ms / own_ms); });
  const double all_ms = median_ms(
      [&] {
        make_keys();
        sort(space.data());
      },
      [&] { gradients.renew(); });
  add_row("add, |x| and that sort", all_ms,
          [=] { return fmt::format("{:.1f} times ours (asked 5)", all_ms / own_ms); });
}

}  // namespace

void measure_top_k(std::uint64_t count) {
  const Gradients gradients(count);
  const double floor = median_ms(
      [&] { must(add_to(gradients.values.data(), gradients.residual.data(), count, nullptr)); });
  add_row(fmt::format("residual += values, {} Mi float32", count >> 20), floor, [=] {
    return fmt::format("{:.2f} of the copy's bandwidth",
                       floor_ms(12.0 * static_cast<double>(count)) / floor);
  });
  measure_sort(gradients, measure_own(gradients, floor));
}

}  // namespace sparcl::bench
