// Publishers and updates of a state whose tensor is in this GPU's memory. With the snapshot on the
// device that finds the changes, and with SPARCL_DEVICE_SNAPSHOT=off, which reads the whole tensor
// on the host.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
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

constexpr int kSteps = 7;

// A tensor that alternates between two values.
class Trained {
 public:
  explicit Trained(std::uint64_t count) : one_(count), other_(count), held_(count) {
    must(fill_random(reinterpret_cast<std::uint32_t*>(one_.data()), count / 2, 1, nullptr));
    must(copy_with_changes(one_.data(), other_.data(), count, 100, 0, nullptr));
    step(0);
    must_succeed(sparclStateCreate(&state_));
    must_succeed(sparclStateAdd(state_, "weights", held_.data(), sparclBfloat16, 1, &count));
  }
  ~Trained() { (void)sparclStateDestroy(state_); }
  Trained(const Trained&) = delete;
  Trained& operator=(const Trained&) = delete;

  sparclState_t state() const { return state_; }
  void step(int number) const {
    must(cudaMemcpy(held_.data(), (number % 2 == 0 ? one_ : other_).data(), 2 * held_.size(),
                    cudaMemcpyDeviceToDevice));
  }

 private:
  DeviceArray<std::uint16_t> one_, other_, held_;
  sparclState_t state_ = nullptr;
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

// Milliseconds of a step, without `before`.
double median_step_ms(const std::function<void(int)>& before,
                      const std::function<void(int)>& step) {
  std::vector<double> times;
  for (int number = 1; number <= kSteps; ++number) {
    before(number);
    const double begin = seconds_now();
    step(number);
    if (number > 2)
      times.push_back(1e3 *
                      (seconds_now() - begin));  // the first steps send all, and make the snapshot
  }
  return median(times);
}

double publish_ms(std::uint64_t count) {
  const Trained trained(count);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = "127.0.0.1:0";
  sparclPublisher_t publisher = nullptr;
  must_succeed(sparclPublisherCreate(&publisher, trained.state(), &options));
  const double ms =
      median_step_ms([&](int number) { trained.step(number); },
                     [&](int number) {
                       must_succeed(sparclPublish(publisher, static_cast<std::uint64_t>(number)));
                     });
  must_succeed(sparclPublisherDestroy(publisher));
  return ms;
}

double update_ms(std::uint64_t count) {
  const Trained root(count), other(count);
  std::array<sparclComm_t, 2> comms{};
  must_succeed(sparclCommInitLocal(comms.data(), 2));
  double ms = 0;
  const auto run = [&](int rank) {
    const Trained& own = rank == 0 ? root : other;
    const double own_ms = median_step_ms(
        [&](int number) {
          if (rank == 0) root.step(number);
        },
        [&](int number) {
          must_succeed(sparclBroadcastUpdate(own.state(), static_cast<std::uint64_t>(number), 0,
                                             nullptr, comms[static_cast<std::size_t>(rank)],
                                             nullptr));
        });
    if (rank == 0) ms = own_ms;
    must_succeed(sparclCommDestroy(comms[static_cast<std::size_t>(rank)]));
  };
  {
    const std::jthread second(run, 1);
    run(0);
  }
  return ms;
}

void measure(const char* what, double (*call)(std::uint64_t), std::uint64_t count) {
  const double there_ms = call(count);
  setenv("SPARCL_DEVICE_SNAPSHOT", "off", 1);
  const double read_ms = call(count);
  unsetenv("SPARCL_DEVICE_SNAPSHOT");
  add_row(fmt::format("{} of 1 % of {} Mi bf16, found on the GPU", what, count >> 20), there_ms,
          [=] {
            return fmt::format("{:.1f} ms where the host reads all: {:.1f} times as fast", read_ms,
                               read_ms / there_ms);
          });
}

}  // namespace

void measure_states(std::uint64_t count) {
  measure("sparclPublish", publish_ms, count);
  measure("sparclBroadcastUpdate", update_ms, count);
}

}  // namespace sparcl::bench
