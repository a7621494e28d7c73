#pragma once
// The routines that code blocks, run on the host over whole arrays, with bytes around what they may
// write.

#include "tests/emulated/coded_blocks.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/decode_block.cuh"
#include "kernels/cuda/diff_tile.cuh"
#include "kernels/cuda/encode_block.cuh"

namespace sparcl::test {

using namespace kernels::cuda;  // NOLINT: the routines under test

// Room for `count`, aligned to 16 bytes, between guards of 64 bytes.
template <class T>
class Guarded {
 public:
  explicit Guarded(std::size_t count)
      : count_(count), memory_(2 * kGuards + (count * sizeof(T) + 15) / 16) {
    std::memset(static_cast<void*>(memory_.data()), 0xc3, memory_.size() * 16);
  }
  T* data() { return reinterpret_cast<T*>(memory_.data() + kGuards); }
  T& operator[](std::size_t i) { return data()[i]; }
  std::size_t size() const { return count_; }
  bool is_untouched_around() const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(memory_.data());
    const std::size_t first = kGuards * 16 + count_ * sizeof(T);
    const auto is_guard = [](unsigned char byte) { return byte == 0xc3; };
    return std::all_of(bytes, bytes + kGuards * 16, is_guard) &&
           std::all_of(bytes + first, bytes + memory_.size() * 16, is_guard);
  }

 private:
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  static constexpr std::size_t kGuards = 4;
  std::size_t count_;
  std::vector<Unit> memory_;
};

struct EncodedArray {
  Guarded<std::byte> contents;
  std::vector<BlockContent> blocks;
  std::vector<DeviceChangeHashes> hashes;

  std::span<std::byte> content(std::size_t block) {
    return {contents.data() + blocks[block].offset, blocks[block].bytes};
  }
};

template <class Word>
EncodedArray emulated_encode(const TwoArrays<Word>& arrays, ListedChanges<Word>& changes,
                             std::uint64_t capacity, bool is_float, std::uint64_t seed) {
  const std::uint64_t count = arrays.base.size(), blocks = block_count(count);
  EncodedArray encoded{
      Guarded<std::byte>(kernels::max_coded_bytes(changes.positions.size(), blocks, sizeof(Word))),
      std::vector<BlockContent>(blocks + 1), std::vector<DeviceChangeHashes>(blocks)};
  std::vector<TileState> states(blocks);
  std::uint32_t next_block = 0;
  Guarded<std::uint16_t> listed(capacity), places(capacity), longs(capacity);
  const EncodeWork work{changes.device(),
                        capacity,
                        arrays.target.data(),
                        count,
                        is_float,
                        encoded.contents.data(),
                        encoded.blocks.data(),
                        encoded.hashes.data(),
                        nullptr,
                        states.data(),
                        &next_block,
                        listed.data(),
                        places.data(),
                        longs.data()};
  emulated::launch<EncodeShared>(static_cast<unsigned>(blocks), kThreads, seed,
                                 [&](EncodeShared& shared) { encode_block<Word>(shared, work); });
  EXPECT_TRUE(encoded.contents.is_untouched_around());
  EXPECT_TRUE(listed.is_untouched_around());
  EXPECT_TRUE(places.is_untouched_around());
  EXPECT_TRUE(longs.is_untouched_around());
  return encoded;
}

template <class Word>
struct DecodedArray {
  Guarded<std::uint16_t> positions;
  Guarded<Word> old_values, new_values;
  std::vector<std::uint64_t> starts;
  std::vector<DeviceChangeHashes> hashes;
  std::vector<BlockError> errors;
  std::uint64_t refused = 0;

  DeviceChanges device() {
    return {positions.data(), old_values.data(), new_values.data(), starts.data()};
  }
};

template <class Word>
DecodedArray<Word> emulated_decode(std::span<const std::byte> contents,
                                   std::span<const BlockContent> blocks,
                                   const std::vector<Word>& held, std::uint64_t capacity,
                                   bool is_float, std::uint64_t seed) {
  const std::uint64_t count = held.size(), all = block_count(count);
  DecodedArray<Word> decoded{Guarded<std::uint16_t>(capacity),
                             Guarded<Word>(capacity),
                             Guarded<Word>(capacity),
                             std::vector<std::uint64_t>(all + 1),
                             std::vector<DeviceChangeHashes>(all),
                             std::vector<BlockError>(all),
                             0};
  std::vector<TileState> states(all);
  std::uint32_t next_block = 0;
  Guarded<std::uint32_t> marks(capacity);
  Guarded<std::uint16_t> listed(capacity), gaps(capacity);
  const DecodeWork work{contents.data(),
                        contents.size(),
                        blocks.data(),
                        held.data(),
                        count,
                        is_float,
                        decoded.device(),
                        capacity,
                        decoded.hashes.data(),
                        decoded.errors.data(),
                        &decoded.refused,
                        states.data(),
                        &next_block,
                        marks.data(),
                        listed.data(),
                        gaps.data()};
  emulated::launch<DecodeShared>(static_cast<unsigned>(all), kThreads, seed,
                                 [&](DecodeShared& shared) { decode_block<Word>(shared, work); });
  EXPECT_TRUE(decoded.positions.is_untouched_around());
  EXPECT_TRUE(decoded.old_values.is_untouched_around());
  EXPECT_TRUE(decoded.new_values.is_untouched_around());
  EXPECT_TRUE(marks.is_untouched_around());
  EXPECT_TRUE(listed.is_untouched_around());
  EXPECT_TRUE(gaps.is_untouched_around());
  return decoded;
}

}  // namespace sparcl::test
