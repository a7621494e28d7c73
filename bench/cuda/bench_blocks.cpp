// The codec's blocks: encode and decode.

#include "bench/cuda/bench_launches.hpp"
#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/block_codec.hpp"

namespace sparcl::bench {

using namespace kernels::cuda;  // NOLINT: what is measured
using test::DeviceArray;
using test::must;

// The way of a sparse broadcast without its network, 1 % of bf16 changed by one step: bytes at the root, and the array elsewhere.
void measure_blocks(std::uint64_t count) {
  const DeviceArray<std::uint16_t> base(count), target(count);
  must(fill_random(reinterpret_cast<std::uint32_t*>(base.data()), count / 2, 1, nullptr));
  const std::uint64_t room = count / 64, blocks = block_count(count);
  const DeviceArray<std::uint16_t> positions(room), old_values(room), new_values(room);
  const DeviceArray<std::uint64_t> starts(blocks + 1), refused(1);
  const DeviceArray<std::byte> diff_space(diff_workspace_bytes(count)), space(decode_workspace_bytes(count, room));
  const DeviceArray<DeviceChangeHashes> hashes(blocks);
  const DeviceArray<BlockContent> places(blocks + 1);
  const DeviceArray<BlockError> errors(blocks);
  const DeviceArray<std::byte> bytes(most_content_bytes(count, 2));
  const DeviceChanges changes{positions.data(), old_values.data(), new_values.data(), starts.data()};
  const DeviceContents contents{bytes.data(), places.data()};
  const double copy = median_ms([&] { must(cudaMemcpyAsync(target.data(), base.data(), 2 * count, cudaMemcpyDeviceToDevice)); });
  must(copy_with_changes(base.data(), target.data(), count, 100, nullptr));

  const auto find = [&] {
    must_be_ok(diff(base.data(), target.data(), count, 2, changes, room, {diff_space.data(), diff_space.size()}, nullptr));
  };
  const auto encode = [&] {
    must_be_ok(encode_blocks(changes, room, target.data(), count, DataType::kBfloat16, contents, hashes.data(),
                             {space.data(), space.size()}, nullptr));
  };
  const double encode_ms = median_ms([&] {
    find();
    encode();
  });
  const auto found = static_cast<double>(starts.read().back());
  const std::uint64_t coded = places.read().back().offset;
  print_row(fmt::format("diff and encode, 1 % of {} Mi bf16", count >> 20), encode_ms,
            fmt::format("{:.2f} of the two arrays' time at the copy's bandwidth (asked 0.60); {:.2f} bits a change",
                        copy / encode_ms, 8 * static_cast<double>(coded) / found));
  print_row("encode alone", median_ms(encode), fmt::format("{:.1f} MB of content", static_cast<double>(coded) / 1e6));

  const DecodedBlocks decoded{changes, room, hashes.data(), errors.data(), refused.data()};
  const auto decode = [&] {
    must_be_ok(
        decode_blocks(contents, coded, base.data(), count, DataType::kBfloat16, decoded, {space.data(), space.size()}, nullptr));
  };
  const auto apply_all = [&] {
    decode();
    must_be_ok(apply_decoded(changes, base.data(), count, 2, refused.data(), nullptr));
  };
  const double apply_ms = median_ms(apply_all);  // step upon step: no two rounds find the same values
  print_row("decode, check and apply in place", apply_ms, fmt::format("{:.2f} G changes/s (asked 2)", found / apply_ms / 1e6));
  print_row("decode and check alone", median_ms(decode), fmt::format("{} blocks refused", refused.read()[0]));
}

}  // namespace sparcl::bench
