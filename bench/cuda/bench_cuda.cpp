// The CUDA kernels against ceilings that are measured in the same run: bench_cuda [--quick]. Prints a table of medians; every
// result was compared with the host's before (tests/gpu).

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/cuda_hash.hpp"
#include "kernels/cuda/cuda_threshold.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

void measure_diff(std::uint64_t count) {
  const DeviceArray<std::uint16_t> base(count), target(count);
  const DeviceArray<std::uint32_t> sink(1);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  must(copy_with_changes(base.data(), target.data(), count, 100, nullptr));
  const std::uint64_t room = count / 64;
  const DeviceArray<std::uint16_t> positions(room), old_values(room), new_values(room);
  const DeviceArray<std::uint64_t> starts(block_count(count) + 1), refused(1);
  const DeviceArray<std::byte> workspace(diff_workspace_bytes(count));
  const DeviceArray<DeviceChangeHashes> hashes(block_count(count));
  const DeviceChanges changes{positions.data(), old_values.data(), new_values.data(), starts.data()};
  const DeviceChanges back{positions.data(), new_values.data(), old_values.data(), starts.data()};

  const double bytes = 2.0 * static_cast<double>(count);
  const double copy = median_ms([&] { must(cudaMemcpyAsync(target.data(), base.data(), 2 * count, cudaMemcpyDeviceToDevice)); });
  must(copy_with_changes(base.data(), target.data(), count, 100, nullptr));
  print_row(fmt::format("copy of {} Mi bf16", count >> 20), copy,
            fmt::format("{:.0f} GB/s read and written", 2 * bytes / copy / 1e6));
  const double floor = copy;  // reading two arrays moves the bytes of a copy
  const double read = median_ms([&] { must(read_two(base.data(), target.data(), 2 * count, sink.data(), nullptr)); });
  print_row("both arrays read by a plain kernel", read, fmt::format("{:.2f} of the copy's bandwidth", floor / read));
  const DeviceArray<kernels::DeviceHash> total(1);
  const double hash_ms = median_ms([&] { must_be_ok(hash_array(base.data(), count, 2, {}, total.data(), nullptr, nullptr)); });
  print_row("state hash of one of them", hash_ms,
            fmt::format("{:.2f} of a read's time at the copy's bandwidth", floor / 2 / hash_ms));
  const double diff_ms = median_ms([&] {
    must_be_ok(diff(base.data(), target.data(), count, 2, changes, room, {workspace.data(), workspace.size()}, nullptr));
  });
  const auto found = static_cast<double>(starts.read().back());
  print_row("diff, 1 % changed", diff_ms,
            fmt::format("{:.2f} of the two arrays' time at the copy's bandwidth (asked 0.85)", floor / diff_ms));

  const double large_ms = median_ms([&] {
    must_be_ok(diff_large(base.data(), target.data(), count, DataType::kBfloat16, 1e-3, changes, room,
                          {workspace.data(), workspace.size()}, nullptr));
  });
  print_row("diff above a threshold of the same", large_ms, fmt::format("{:.2f} of the time of diff", large_ms / diff_ms));
  must_be_ok(diff(base.data(), target.data(), count, 2, changes, room, {workspace.data(), workspace.size()}, nullptr));

  const auto undo = [&] { must_be_ok(apply(back, base.data(), count, 2, nullptr, refused.data(), nullptr)); };
  const auto plain = [&] { must_be_ok(apply(changes, base.data(), count, 2, nullptr, refused.data(), nullptr)); };
  const auto hashed = [&] { must_be_ok(apply(changes, base.data(), count, 2, hashes.data(), refused.data(), nullptr)); };
  plain();
  const double apply_ms = median_ms(plain, undo), hashed_ms = median_ms(hashed, undo);
  print_row("apply in place, old values checked", apply_ms,
            fmt::format("{:.2f} G changes/s (asked 2, with decoding)", found / apply_ms / 1e6));
  print_row("the same with hashes", hashed_ms, fmt::format("{:.1f} % more (asked < 10)", 100 * (hashed_ms / apply_ms - 1)));
}

void measure_top_k(std::uint64_t count) {
  const std::uint64_t k = count / 100;
  const DeviceArray<float> values(count), residual(count), taken(k);
  const DeviceArray<std::uint64_t> indices(k), found(1);
  const DeviceArray<std::byte> workspace(top_k_workspace_bytes(count, k, DataType::kFloat32));
  must(fill_normal(values.data(), count, 1, nullptr));
  const auto fresh = [&] { must(fill_normal(residual.data(), count, 77, nullptr)); };
  fresh();
  const double floor = median_ms([&] { must(add_to(values.data(), residual.data(), count, nullptr)); });
  print_row(fmt::format("residual += values, {} Mi float32", count >> 20), floor,
            fmt::format("{:.0f} GB/s", 12.0 * static_cast<double>(count) / floor / 1e6));
  TopK call{};
  call.values = values.data();
  call.residual = residual.data();
  call.count = count;
  call.k = k;
  call.clear_sent = true;
  call.indices = indices.data();
  call.taken = taken.data();
  call.found = found.data();
  const double ms = median_ms(
      [&] {
        must_be_ok(top_k(call, DataType::kFloat32, {workspace.data(), workspace.size()}, nullptr));
      },
      fresh);
  print_row("top-k 1 % with feedback", ms, fmt::format("{:.2f} of that pass (asked 2.5)", ms / floor));

  const double large_ms = median_ms(
      [&] {
        TakeLarge large{};
        large.values = values.data();
        large.residual = residual.data();
        large.count = count;
        large.least = least_key(DataType::kFloat32, 3.6);  // 1 % of two normal numbers' sums
        large.clear_sent = true;
        large.capacity = k;
        large.indices = indices.data();
        large.taken = taken.data();
        large.found = found.data();
        must_be_ok(take_large(large, DataType::kFloat32, {workspace.data(), workspace.size()}, nullptr));
      },
      fresh);
  print_row("all above a threshold, 1 %, with feedback", large_ms, fmt::format("{:.2f} of that pass", large_ms / floor));

  std::size_t sort_bytes = 0;
  const DeviceArray<std::uint32_t> numbers(count), sorted(count), sorted_keys(count);
  must(fill_random(numbers.data(), count, 3, nullptr));
  const auto* const keys = reinterpret_cast<const std::uint32_t*>(values.data());
  must(sort_pairs(nullptr, &sort_bytes, keys, sorted_keys.data(), numbers.data(), sorted.data(), count, nullptr));
  const DeviceArray<std::byte> sort_space(sort_bytes);
  const double sort_ms = median_ms([&] {
    must(sort_pairs(sort_space.data(), &sort_bytes, keys, sorted_keys.data(), numbers.data(), sorted.data(), count, nullptr));
  });
  print_row("cub::DeviceRadixSort of the same", sort_ms, fmt::format("{:.1f} times ours (asked 5)", sort_ms / ms));
}

// 1 % of float32, one in each hundred elements, against the sectors of 32 bytes that they lie in, at the copy's bandwidth.
void measure_mask(std::uint64_t count) {
  constexpr std::uint64_t kOneIn = 100, kOfBlock = kBlockElements / kOneIn;
  std::mt19937_64 random(1);
  std::vector<kernels::MaskPart> parts_here;
  std::vector<std::uint16_t> positions_here;
  for (std::uint64_t block = 0; block <= count / kBlockElements; ++block) {
    parts_here.push_back({block, positions_here.size()});
    if (block == count / kBlockElements) break;
    for (std::uint64_t i = 0; i < kOfBlock; ++i)
      positions_here.push_back(static_cast<std::uint16_t>(i * kOneIn + random() % kOneIn));
  }
  const DeviceArray<kernels::MaskPart> parts(parts_here);
  const DeviceArray<std::uint16_t> positions(positions_here);
  const std::uint64_t size = positions_here.size();
  const DeviceArray<float> array(count), packed(size), other(count);
  const kernels::MaskPlaces places{
      .count = size, .parts = parts.data(), .part_count = count / kBlockElements, .positions = positions.data(), .runs = nullptr};
  const double copy = median_ms([&] { must(cudaMemcpyAsync(other.data(), array.data(), 4 * count, cudaMemcpyDeviceToDevice)); });
  const double bytes_a_ms = 8.0 * static_cast<double>(count) / copy;
  const double floor = static_cast<double>(size) * (32 + 4 + 2) / bytes_a_ms;
  const double gather_ms = median_ms([&] { must_be_ok(gather_mask(places, array.data(), 4, packed.data(), nullptr)); });
  print_row(fmt::format("gather of a mask, 1 % of {} Mi float32", count >> 20), gather_ms,
            fmt::format("{:.2f} of its sectors at the copy's bandwidth", floor / gather_ms));
  const double scatter_ms = median_ms([&] { must_be_ok(scatter_mask(places, packed.data(), 4, array.data(), nullptr)); });
  print_row("scatter of the same", scatter_ms, fmt::format("{:.2f} of that", floor / scatter_ms));
}

int run(bool is_quick) {
  if (const std::string why = test::why_no_gpu(); !why.empty()) {
    fmt::print("skipped: {}\n", why);
    return 0;
  }
  cudaDeviceProp device{};
  int driver = 0, runtime = 0;
  must(cudaGetDeviceProperties(&device, 0));
  must(cudaDriverGetVersion(&driver));
  must(cudaRuntimeGetVersion(&runtime));
  fmt::print("{}, {} multiprocessors, driver {}, runtime {}; medians of {}\n\n| what | ms | beside |\n|---|---|---|\n", device.name,
             device.multiProcessorCount, driver, runtime, kRounds);
  measure_diff(is_quick ? 1U << 26 : 1U << 30);
  measure_blocks(is_quick ? 1U << 26 : 1U << 30);
  measure_broadcast(is_quick ? 1U << 26 : 1U << 30);
  measure_top_k(is_quick ? 1U << 24 : 1U << 28);
  measure_mask(is_quick ? 1U << 24 : 1U << 28);
  if (!is_quick) measure_model();
  measure_entries(is_quick ? 1U << 20 : 1U << 24);
  return 0;
}

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) try {
  return sparcl::bench::run(argc > 1 && std::string(argv[1]) == "--quick");
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_cuda: {}\n", error.what());
  return 1;
}
