// A broadcast of what changed, of two ranks that share this GPU: the call with all that is around its kernels.

#include <algorithm>
#include <array>
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

}  // namespace

// 1 % of bf16 changed by one step, there and back in turn; beside it what the copies of whole arrays take, one way, that a call by
// way of the host begins with.
void measure_broadcast(std::uint64_t count) {
  const DeviceArray<std::uint16_t> base(count), target(count), held(count);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  must(copy_with_changes(base.data(), target.data(), count, 100, 0, nullptr));
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
      must_succeed(sparclBroadcastDelta(rank == 0 ? to : held.data(), from, count, sparclBfloat16, 0,
                                        comms[static_cast<std::size_t>(rank)], nullptr));
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
  const double ms = times[kRounds / 2];
  std::vector<std::uint16_t> on_host(count);
  const double copy = median_ms([&] { must(cudaMemcpy(on_host.data(), base.data(), 2 * count, cudaMemcpyDeviceToHost)); });
  const double megabytes = static_cast<double>(report.bytes_received) / 1e6;
  add_row(fmt::format("broadcast of 1 % of {} Mi bf16 to a second rank", count >> 20), ms,
          [=] { return fmt::format("{:.1f} MB coded; {:.2f} of the time of one array's copy to the host", megabytes, ms / copy); });
}

}  // namespace sparcl::bench
