// The CUDA kernels against ceilings that are measured in the same run: bench_cuda [--quick |
// --gpu]. Prints a table of medians; every result was compared with the host's before
// (tests/hardware). --gpu: says which GPU it would take, and nothing else. Exits with 77 where
// there is none.

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/part_memory.hpp"
#include "kernels/cuda/cuda_hash.hpp"
#include "kernels/cuda/cuda_threshold.hpp"
#include "kernels/cuda/device_kernels.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

void measure_apply(const PartMemory& memory, std::uint16_t* array) {
  const DeviceChanges changes = memory.changes(), back{changes.positions, changes.new_values,
                                                       changes.old_values, changes.block_starts};
  const auto write = [&](const DeviceChanges& list, DeviceChangeHashes* hashes) {
    must_be_ok(apply(list, array, memory.count, 2, hashes, memory.refused.data(), nullptr));
  };
  const auto undo = [&] { write(back, nullptr); };
  write(changes, nullptr);
  const double plain_ms = median_ms([&] { write(changes, nullptr); }, undo);
  const double hashed_ms = median_ms([&] { write(changes, memory.hashes.data()); }, undo);
  const auto found = static_cast<double>(memory.changes_found());
  add_row("apply in place, old values checked", plain_ms, [=] {
    return fmt::format("{:.2f} G changes/s (asked 2, with decoding)", found / plain_ms / 1e6);
  });
  add_row("the same with hashes", hashed_ms, [=] {
    return fmt::format("{:.1f} % more (asked < 10)", 100 * (hashed_ms / plain_ms - 1));
  });
}

void measure_diff(std::uint64_t count) {
  const DeviceArray<std::uint16_t> base(count), target(count);
  const DeviceArray<std::uint32_t> sink(1);
  const DeviceArray<kernels::DeviceHash> total(1);
  const PartMemory memory(count);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  must(copy_with_changes(base.data(), target.data(), count, 100, 0, nullptr));

  const double bytes = 2.0 * static_cast<double>(count);  // of one array
  const double read_ms = median_ms(
      [&] { must(read_two(base.data(), target.data(), 2 * count, sink.data(), nullptr)); });
  add_row(
      fmt::format("two arrays of {} Mi bf16 read by a plain kernel", count >> 20), read_ms,
      [=] { return fmt::format("{:.2f} of the copy's bandwidth", floor_ms(2 * bytes) / read_ms); });
  const double hash_ms = median_ms(
      [&] { must_be_ok(hash_array(base.data(), count, 2, {}, total.data(), nullptr, nullptr)); });
  add_row("state hash of one of them", hash_ms, [=] {
    return fmt::format("{:.2f} of a read's time at the copy's bandwidth",
                       floor_ms(bytes) / hash_ms);
  });
  const double diff_ms = median_ms([&] { memory.find(base.data(), target.data()); });
  add_row("diff, 1 % changed", diff_ms, [=] {
    return fmt::format("{:.2f} of the two arrays' time at the copy's bandwidth (asked 0.85)",
                       floor_ms(2 * bytes) / diff_ms);
  });
  const double large_ms = median_ms([&] {
    must_be_ok(diff_large(base.data(), target.data(), count, DataType::kBfloat16, 1e-3,
                          memory.changes(), memory.room,
                          {memory.diff_space.data(), memory.diff_space.size()}, nullptr));
  });
  add_row("diff above a threshold of the same", large_ms,
          [=] { return fmt::format("{:.2f} of the time of diff", large_ms / diff_ms); });
  memory.find(base.data(), target.data());
  measure_apply(memory, base.data());
}

void measure_all(bool is_quick) {
  measure_copy();
  measure_diff(is_quick ? 1U << 26 : 1U << 30);
  measure_blocks(is_quick ? 1U << 26 : 1U << 30);
  measure_broadcast(is_quick ? 1U << 26 : 1U << 30);
  measure_states(is_quick ? 1U << 26 : 1U << 30);
  measure_top_k(is_quick ? 1U << 24 : 1U << 28);
  measure_masks(is_quick ? 1U << 24 : 1U << 28);
  if (!is_quick) measure_model();
  measure_entries(is_quick ? 1U << 20 : 1U << 24);
  measure_copy();
}

constexpr int kSkipped = 77;

int run(const std::string& option) {
  if (const std::string why = test::why_no_gpu(); !why.empty()) {
    fmt::print("skipped: {}\n", why);
    return kSkipped;
  }
  cudaDeviceProp device{};
  int driver = 0, runtime = 0;
  must(cudaGetDeviceProperties(&device, 0));
  must(cudaDriverGetVersion(&driver));
  must(cudaRuntimeGetVersion(&runtime));
  fmt::print("{}, {} multiprocessors, driver {}, runtime {}; medians of {}\n\n", device.name,
             device.multiProcessorCount, driver, runtime, kRounds);
  if (option == "--gpu") return 0;
  try {
    measure_all(option == "--quick");
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cuda: {}; the rows until then:\n", error.what());
    print_rows();
    return 1;
  }
  print_rows();
  return 0;
}

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) try {
  const std::string option = argc > 1 ? argv[1] : "";
  if (argc > 2 || (!option.empty() && option != "--quick" && option != "--gpu")) {
    fmt::print(stderr, "usage: bench_cuda [--quick | --gpu]\n");
    return 2;
  }
  return sparcl::bench::run(option);
} catch (const std::exception& error) {
  fmt::print(stderr, "bench_cuda: {}\n", error.what());
  return 1;
}
