// Broadcasts of changes between two ranks that share this GPU: the whole call, not only its
// kernels.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <vector>

#include "bench/cuda/bench_calls.hpp"
#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "sparcl/sparcl.h"

namespace sparcl::bench {
namespace {

using test::DeviceArray;
using test::must;

struct Measured {
  double ms;  // median
  double megabytes;
};

// Both directions in turn. The environment is read as the ranks meet.
Measured broadcast(const DeviceArray<std::uint16_t>& base,
                   const DeviceArray<std::uint16_t>& target) {
  const std::uint64_t count = base.size();
  const DeviceArray<std::uint16_t> held(count);
  must(cudaMemcpy(held.data(), base.data(), 2 * count, cudaMemcpyDeviceToDevice));
  std::array<sparclComm_t, 2> comms{};
  must_succeed(sparclCommInitLocal(comms.data(), 2));
  std::vector<double> times;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  const auto run = [&](int rank) {
    for (int round = 0; round <= kRounds; ++round) {
      const std::uint16_t* const from = (round % 2 == 0 ? base : target).data();
      std::uint16_t* const to = (round % 2 == 0 ? target : base).data();
      const double begin = seconds_now();
      must_succeed(sparclBroadcastDelta(rank == 0 ? to : held.data(), from, count, sparclBfloat16,
                                        0, nullptr, comms[static_cast<std::size_t>(rank)],
                                        nullptr));
      if (rank == 1 && round > 0) times.push_back(1e3 * (seconds_now() - begin));
    }
    if (rank == 1) must_succeed(sparclCommLastReport(comms[1], &report));
    must_succeed(sparclCommDestroy(comms[static_cast<std::size_t>(rank)]));
  };
  {
    const std::jthread other(run, 1);
    run(0);
  }
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return {times[kRounds / 2], static_cast<double>(report.bytes_received) / 1e6};
}

}  // namespace

// 1 % of bf16 weights changed by one step. For comparison: the copies of whole arrays in one
// direction, with which a call that is staged through host memory begins. In addition with classes,
// and with the speed of links on which classes save more time than they cost.
void measure_broadcast(std::uint64_t count) {
  const DeviceArray<std::uint16_t> base(count), target(count);
  must(fill_weights(base.data(), count, 1, nullptr));
  must(copy_with_steps(base.data(), target.data(), count, nullptr));
  const Measured plain = broadcast(base, target);
  std::vector<std::uint16_t> on_host(count);
  const double copy = median_ms(
      [&] { must(cudaMemcpy(on_host.data(), base.data(), 2 * count, cudaMemcpyDeviceToHost)); });
  add_row(
      fmt::format("broadcast of 1 % of {} Mi bf16 to a second rank", count >> 20), plain.ms, [=] {
        return fmt::format("{:.1f} MB coded; {:.2f} of the time of one array's copy to the host",
                           plain.megabytes, plain.ms / copy);
      });
  setenv("SPARCL_VERIFY", "full", 1);
  const Measured checked = broadcast(base, target);
  setenv("SPARCL_DEVICE_CLASSES", "on", 1);
  const Measured in_classes = broadcast(base, target);
  unsetenv("SPARCL_DEVICE_CLASSES");
  unsetenv("SPARCL_VERIFY");
  add_row("the same, all of the base checked", checked.ms);
  add_row("the same in classes of old exponents", in_classes.ms, [=] {
    const double megabits = 8 * (checked.megabytes - in_classes.megabytes),
                 more_ms = in_classes.ms - checked.ms;
    return fmt::format("{:.1f} MB coded, {:.2f} of the bytes: {}", in_classes.megabytes,
                       in_classes.megabytes / checked.megabytes,
                       more_ms > 0
                           ? fmt::format("pays on links below {:.1f} Gbit/s", megabits / more_ms)
                           : "pays on any link");
  });
}

}  // namespace sparcl::bench
