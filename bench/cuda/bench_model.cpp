// The bf16 weights of a large model, 1 % of them changed, from the trainer's diff to a replica's
// new weights on one GPU.

#include <algorithm>
#include <array>
#include <vector>

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/part_memory.hpp"

namespace sparcl::bench {
namespace {

using test::DeviceArray;
using test::must;

constexpr std::uint64_t kPart = std::uint64_t{1} << 30;  // elements that are coded at a time
constexpr std::uint64_t kSpareBytes = std::uint64_t{5} << 30;
constexpr int kPasses = 5;

enum Stage { kDiff, kEncode, kDecode, kApply, kStages };
using Times = std::array<double, kStages>;

class Events {
 public:
  Events() {
    for (cudaEvent_t& event : events_) must(cudaEventCreate(&event));
  }
  ~Events() {
    for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  void record(int i) { must(cudaEventRecord(events_[static_cast<std::size_t>(i)])); }
  void add_to(Times& times) {
    must(cudaEventSynchronize(events_[kStages]));
    for (std::size_t i = 0; i < kStages; ++i) {
      float ms = 0;
      must(cudaEventElapsedTime(&ms, events_[i], events_[i + 1]));
      times[i] += ms;
    }
  }

 private:
  std::array<cudaEvent_t, kStages + 1> events_{};
};

// held becomes target; returns the coded bytes. The GPU is busy until all of it is enqueued.
std::uint64_t pass_on_part(const PartMemory& memory, std::uint16_t* held,
                           const std::uint16_t* target, Events& events, Times& times) {
  must(spin(nullptr));
  events.record(kDiff);
  memory.find(held, target);
  events.record(kEncode);
  memory.encode(target);
  events.record(kDecode);
  memory.decode(held);
  events.record(kApply);
  memory.apply(held);
  events.record(kStages);
  events.add_to(times);
  return memory.coded_bytes();
}

std::uint64_t parts_that_fit() {
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total));
  return free < kSpareBytes ? 0 : std::min<std::uint64_t>(15, (free - kSpareBytes) / (4 * kPart));
}

}  // namespace

void measure_model() {
  const std::uint64_t parts = parts_that_fit(), count = parts * kPart;
  if (parts == 0)
    return add_row("a large model's weights", 0,
                   [] { return "skipped: the GPU has less than 9 GiB of free memory"; });
  const DeviceArray<std::uint16_t> base(count), target(count);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  must(copy_with_changes(base.data(), target.data(), count, 100, 0, nullptr));
  const PartMemory memory(kPart);
  Events events;
  std::vector<Times> passes;
  std::uint64_t coded = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {  // both directions in turn
    Times times{};
    coded = 0;
    for (std::uint64_t part = 0; part < parts; ++part)
      coded += pass_on_part(memory, base.data() + part * kPart, target.data() + part * kPart,
                            events, times);
    if (pass > 0) passes.push_back(times);
    must(copy_with_changes(target.data(), base.data(), count, 100, 0, nullptr));
  }
  constexpr std::array<const char*, kStages> kNames{"diff", "encode", "decode and check", "apply"};
  double all = 0;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::vector<double> each;
    for (const Times& times : passes) each.push_back(times[stage]);
    std::nth_element(each.begin(), each.begin() + kPasses / 2, each.end());
    all += each[kPasses / 2];
    add_row(fmt::format("{} of {:.1f} GB of bf16, 1 % changed", kNames[stage],
                        2e-9 * static_cast<double>(count)),
            each[kPasses / 2], [] { return fmt::format("in parts of {} Mi", kPart >> 20); });
  }
  add_row("all of these", all, [=] {
    return fmt::format(
        "{:.0f} MB coded, {:.1f} % of the weights. If each of 8 GPUs holds an eighth: {:.3f} ms "
        "each and {:.0f} MB to send (calculated, without a network)",
        1e-6 * static_cast<double>(coded),
        50.0 * static_cast<double>(coded) / static_cast<double>(count), all / 8,
        1e-6 * static_cast<double>(coded) / 8);
  });
}

}  // namespace sparcl::bench
