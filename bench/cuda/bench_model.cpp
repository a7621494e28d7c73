// The bf16 weights of a large model, 1 % of them changed, from the trainer's diff to a replica's new weights on the one GPU.

#include <array>

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/block_codec.hpp"

namespace sparcl::bench {
namespace {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

constexpr std::uint64_t kPart = std::uint64_t{1} << 30;  // elements that are coded at a time
constexpr std::uint64_t kSpareBytes = std::uint64_t{5} << 30;
constexpr int kPasses = 5;

// A part's scratch, on both sides.
struct PartMemory {
  const std::uint64_t room = kPart / 64, blocks = block_count(kPart);
  DeviceArray<std::uint16_t> positions{room}, old_values{room}, new_values{room};
  DeviceArray<std::uint64_t> starts{blocks + 1}, refused{1};
  DeviceArray<std::byte> diff_space{diff_workspace_bytes(kPart)}, space{decode_workspace_bytes(kPart, room)};
  DeviceArray<DeviceChangeHashes> hashes{blocks};
  DeviceArray<BlockContent> places{blocks + 1};
  DeviceArray<BlockError> errors{blocks};
  DeviceArray<std::byte> bytes{most_content_bytes(kPart, 2)};
};

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

// held becomes target; returns the coded bytes.
std::uint64_t pass_on_part(PartMemory& memory, std::uint16_t* held, const std::uint16_t* target, Events& events, Times& times) {
  const DeviceChanges changes{memory.positions.data(), memory.old_values.data(), memory.new_values.data(), memory.starts.data()};
  const DeviceContents contents{memory.bytes.data(), memory.places.data()};
  const Workspace space{memory.space.data(), memory.space.size()};
  events.record(kDiff);
  must_be_ok(diff(held, target, kPart, 2, changes, memory.room, {memory.diff_space.data(), memory.diff_space.size()}, nullptr));
  events.record(kEncode);
  must_be_ok(
      encode_blocks(changes, memory.room, target, kPart, DataType::kBfloat16, contents, memory.hashes.data(), space, nullptr));
  events.record(kDecode);
  const std::uint64_t coded = memory.places.read().back().offset;  // what a sender has to know, too
  const DecodedBlocks decoded{changes, memory.room, memory.hashes.data(), memory.errors.data(), memory.refused.data()};
  must_be_ok(decode_blocks(contents, coded, held, kPart, DataType::kBfloat16, decoded, space, nullptr));
  events.record(kApply);
  must_be_ok(apply_decoded(changes, held, kPart, 2, memory.refused.data(), nullptr));
  events.record(kStages);
  events.add_to(times);
  return coded;
}

std::uint64_t parts_that_fit() {
  std::size_t free = 0, total = 0;
  must(cudaMemGetInfo(&free, &total));
  return free < kSpareBytes ? 0 : std::min<std::uint64_t>(15, (free - kSpareBytes) / (4 * kPart));
}

}  // namespace

void measure_model() {
  const std::uint64_t parts = parts_that_fit(), count = parts * kPart;
  if (parts == 0) return print_row("a large model's weights", 0, "skipped: the GPU has less than 9 GiB of free memory");
  const DeviceArray<std::uint16_t> base(count), target(count);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  must(copy_with_changes(base.data(), target.data(), count, 100, nullptr));
  PartMemory memory;
  Events events;
  std::vector<Times> passes;
  std::uint64_t coded = 0;
  for (int pass = 0; pass <= kPasses; ++pass) {  // there and back in turn
    Times times{};
    coded = 0;
    for (std::uint64_t part = 0; part < parts; ++part)
      coded += pass_on_part(memory, base.data() + part * kPart, target.data() + part * kPart, events, times);
    if (pass > 0) passes.push_back(times);
    must(copy_with_changes(target.data(), base.data(), count, 100, nullptr));
  }
  constexpr std::array<const char*, kStages> kNames{"diff", "encode", "decode and check", "apply"};
  double all = 0;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::vector<double> each;
    for (const Times& times : passes) each.push_back(times[stage]);
    std::nth_element(each.begin(), each.begin() + kPasses / 2, each.end());
    all += each[kPasses / 2];
    print_row(fmt::format("{} of {:.1f} GB of bf16, 1 % changed", kNames[stage], 2e-9 * static_cast<double>(count)),
              each[kPasses / 2], fmt::format("in parts of {} Mi", kPart >> 20));
  }
  print_row(
      "all of these", all,
      fmt::format("{:.0f} MB coded, {:.1f} % of the weights; where each of 8 GPUs holds an eighth, {:.3f} ms each and {:.0f} MB to "
                  "be sent (by the numbers, no network in it)",
                  1e-6 * static_cast<double>(coded), 50.0 * static_cast<double>(coded) / static_cast<double>(count), all / 8,
                  1e-6 * static_cast<double>(coded) / 8));
}

}  // namespace sparcl::bench
