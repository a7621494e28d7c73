#pragma once
// Memory to code bf16 beside the arrays: both sides' scratch, on one GPU.

#include "bench/cuda/bench_rows.hpp"
#include "kernels/cuda/block_codec.hpp"

namespace sparcl::bench {

struct PartMemory {
  explicit PartMemory(std::uint64_t elements) : count(elements) {}

  std::uint64_t count, room = count / 64,
                       blocks = kernels::cuda::block_count(count);  // room: for changes
  test::DeviceArray<std::uint16_t> positions{room}, old_values{room}, new_values{room};
  test::DeviceArray<std::uint64_t> starts{blocks + 1}, refused{1};
  test::DeviceArray<std::byte> diff_space{kernels::cuda::diff_workspace_bytes(count)},
      space{kernels::cuda::decode_workspace_bytes(count, room)};
  test::DeviceArray<kernels::cuda::DeviceChangeHashes> hashes{blocks};
  test::DeviceArray<kernels::BlockContent> places{blocks + 1};
  test::DeviceArray<kernels::BlockError> errors{blocks};
  test::DeviceArray<std::byte> bytes{kernels::cuda::max_content_bytes(count, 2)};

  kernels::DeviceChanges changes() const {
    return {positions.data(), old_values.data(), new_values.data(), starts.data()};
  }
  kernels::DeviceContents contents() const { return {bytes.data(), places.data()}; }

  void find(const std::uint16_t* base, const std::uint16_t* target) const {
    must_be_ok(kernels::cuda::diff(base, target, count, 2, changes(), room,
                                   {diff_space.data(), diff_space.size()}, nullptr));
  }
  void encode(const std::uint16_t* target) const {
    must_be_ok(kernels::cuda::encode_blocks(changes(), room, target, count, DataType::kBfloat16,
                                            contents(), hashes.data(), {space.data(), space.size()},
                                            nullptr));
  }
  // Covers the whole capacity of contents, because their actual size would have to be waited for.
  void decode(const std::uint16_t* held) const {
    const kernels::DecodedBlocks decoded{changes(), room, hashes.data(), errors.data(),
                                         refused.data()};
    must_be_ok(kernels::cuda::decode_blocks(contents(), bytes.size(), held, count,
                                            DataType::kBfloat16, decoded,
                                            {space.data(), space.size()}, nullptr));
  }
  void apply(std::uint16_t* held) const {
    must_be_ok(kernels::cuda::apply_decoded(changes(), held, count, 2, refused.data(), nullptr));
  }

  // These two wait.
  std::uint64_t changes_found() const { return last_of(starts); }
  std::uint64_t coded_bytes() const { return last_of(places).offset; }

 private:
  template <class T>
  static T last_of(const test::DeviceArray<T>& array) {
    T last;
    test::must(
        cudaMemcpy(&last, array.data() + array.size() - 1, sizeof last, cudaMemcpyDeviceToHost));
    return last;
  }
};

}  // namespace sparcl::bench
