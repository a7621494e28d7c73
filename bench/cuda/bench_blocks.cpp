// The codec's blocks: encode and decode.

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/part_memory.hpp"

namespace sparcl::bench {
namespace {

using test::DeviceArray;
using test::must;

struct Coded {
  std::uint64_t count;
  DeviceArray<std::uint16_t> base{count}, target{count};
  PartMemory memory{count};

  // 1 % of bf16 changed: by one step, or of `percent_larger` of 100 by up to 32.
  void renew(std::uint32_t percent_larger) const {
    must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
    must(copy_with_changes(base.data(), target.data(), count, 100, percent_larger, nullptr));
    code();
  }
  // All elements of 1 % of the rows.
  void renew_rows(std::uint32_t row) const {
    must(copy_with_rows(base.data(), target.data(), count, row, 100, nullptr));
    code();
  }
  void code() const {
    memory.find(base.data(), target.data());
    memory.encode(target.data());
  }
};

double changes_a_second(std::uint64_t changes, double ms) {
  return static_cast<double>(changes) / ms / 1e6;
}

// The way of a sparse broadcast without its network: bytes at the root, and the array elsewhere.
void measure_way(const Coded& coded) {
  const PartMemory& memory = coded.memory;
  coded.renew(0);
  const std::uint64_t count = coded.count, found = memory.changes_found(),
                      bytes = memory.coded_bytes();
  const double encode_ms = median_ms([&] {
    memory.find(coded.base.data(), coded.target.data());
    memory.encode(coded.target.data());
  });
  add_row(fmt::format("diff and encode, 1 % of {} Mi bf16", count >> 20), encode_ms, [=] {
    return fmt::format(
        "{:.2f} of the two arrays' time at the copy's bandwidth (asked 0.60); {:.2f} bits a change",
        floor_ms(4.0 * static_cast<double>(count)) / encode_ms,
        8 * static_cast<double>(bytes) / static_cast<double>(found));
  });
  const double apply_ms = median_ms([&] {
    memory.decode(coded.base.data());
    memory.apply(coded.base.data());  // step upon step: no two rounds find the same values
  });
  add_row("decode, check and apply in place", apply_ms, [=] {
    return fmt::format("{:.2f} G changes/s (asked 2)", changes_a_second(found, apply_ms));
  });
}

// By themselves.
void measure_coding(const Coded& coded, const std::string& changes) {
  const PartMemory& memory = coded.memory;
  const std::uint64_t found = memory.changes_found(), bytes = memory.coded_bytes();
  const double encode_ms = median_ms([&] { memory.encode(coded.target.data()); });
  add_row("encode alone, " + changes, encode_ms, [=] {
    return fmt::format("{:.2f} G changes/s, {:.1f} MB of content",
                       changes_a_second(found, encode_ms), static_cast<double>(bytes) / 1e6);
  });
  const double decode_ms = median_ms([&] { memory.decode(coded.base.data()); });
  const std::uint64_t refused = memory.refused.read()[0];
  add_row("decode and check of the same", decode_ms, [=] {
    return fmt::format("{:.2f} G changes/s, {} blocks refused", changes_a_second(found, decode_ms),
                       refused);
  });
}

}  // namespace

void measure_blocks(std::uint64_t count) {
  const Coded coded{count};
  measure_way(coded);
  for (const std::uint32_t percent_larger : {0U, 10U, 30U}) {
    coded.renew(percent_larger);
    measure_coding(coded, fmt::format("{} % of the changes of more than one step", percent_larger));
  }
  constexpr std::uint32_t kRow = 2048;  // coded on two levels
  coded.renew_rows(kRow);
  measure_coding(coded, fmt::format("1 % in rows of {}", kRow));
}

}  // namespace sparcl::bench
