// The block routine of the state hash, run on the host against the codec's hash of a state.

#include <gtest/gtest.h>

#include "src/codec/state_hash.hpp"
#include "src/codec/update.hpp"
#include "tests/emulated/emulated_cuda.hpp"
// After the emulation.
#include "kernels/cuda/hash_block.cuh"
#include "tests/emulated/element_types.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: the routine under test
using kernels::DeviceHash;
using kernels::hashed_blocks;
using kernels::HashPlace;

template <class Word>
struct HashRoutine : testing::Test {};
using Words = testing::Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;
TYPED_TEST_SUITE(HashRoutine, Words);

// An array at an offset from an aligned address, between bytes that are not its own.
template <class Word>
struct Array {
  struct alignas(16) Aligned {
    std::byte bytes[16];
  };
  Array(std::size_t own_count, std::size_t offset, std::uint64_t seed)
      : memory((own_count + offset) * sizeof(Word) / 16 + 2),
        data(reinterpret_cast<Word*>(memory.data()) + offset),
        count(own_count) {
    std::mt19937_64 random(seed);
    for (Aligned& part : memory) {
      for (std::byte& byte : part.bytes) byte = static_cast<std::byte>(random());
    }
  }
  std::vector<Aligned> memory;
  Word* data;
  std::size_t count;
};

template <class Word>
void hash(const Array<Word>& array, const HashPlace& place, DeviceHash& total, DeviceHash* sums,
          std::uint64_t seed) {
  const HashWork work{array.data, array.count, place, &total, sums};
  emulated::launch<HashShared>(static_cast<unsigned>(hashed_blocks(array.count, place)), kThreads,
                               seed, [&](HashShared& shared) { hash_block<Word>(shared, work); });
}

// A state of several arrays, whose small ones share blocks, by the hashes of each.
template <class Word>
void check_hash(const std::vector<std::size_t>& counts, std::size_t offset) {
  SCOPED_TRACE(testing::Message() << counts.size() << " arrays, the first of " << counts[0]
                                  << ", offset " << offset);
  std::vector<Array<Word>> arrays;
  std::vector<codec::ArraySpec> specs{{DataType::kInt16, 70'000}};  // a run before it
  const std::vector<std::byte> zeros(140'000);
  std::vector<const std::byte*> pointers{zeros.data()};
  for (const std::size_t count : counts) {
    arrays.emplace_back(count, offset, count);
    specs.push_back({type_of<Word>(), count});
  }
  for (const Array<Word>& array : arrays)
    pointers.push_back(reinterpret_cast<const std::byte*>(array.data));
  const codec::BlockMap map(specs);
  DeviceHash total{7, 9};
  std::vector<DeviceHash> sums(map.block_count());
  for (std::uint32_t i = 0; i < arrays.size(); ++i) {
    const codec::BlockMap::Place place = map.place_of(i + 1, 0);
    hash<Word>(arrays[i], {place.block, place.offset}, total, sums.data() + place.block, i);
  }
  const kernels::KernelSet& host = kernels::reference_kernels();
  const Hash128 wanted = codec::state_hash(map, pointers, {7, 9}, host);
  EXPECT_EQ(total.low, wanted.low);
  EXPECT_EQ(total.high, wanted.high);
  std::vector<Hash128> blocks;
  codec::add_block_hashes(map, {{pointers.begin(), pointers.end()}}, 0, map.block_count(), host,
                          blocks);
  for (std::uint64_t b = 0; b < blocks.size(); ++b)
    EXPECT_EQ(codec::placed({sums[b].low, sums[b].high}, b), blocks[b]) << b;
}

TYPED_TEST(HashRoutine, IsTheCodecsHashOfAState) {
  for (const std::size_t count : {1UL, 3UL, 511UL, 4096UL, 65'535UL, 65'536UL, 65'537UL, 200'003UL})
    check_hash<TypeParam>({count}, 0);
}

TYPED_TEST(HashRoutine, TakesArraysThatShareBlocks) {
  check_hash<TypeParam>({5, 7, 65'536, 1, 130'000}, 0);
  check_hash<TypeParam>({16, 65'520, 70'000}, 0);  // all aligned
}

TYPED_TEST(HashRoutine, TakesArraysOfAnyAlignment) { check_hash<TypeParam>({70'001, 3000}, 1); }

TEST(HashedBlocks, AreThoseThatAnArrayTouches) {
  EXPECT_EQ(hashed_blocks(0, {}), 0U);
  EXPECT_EQ(hashed_blocks(1, {0, 65'535}), 1U);
  EXPECT_EQ(hashed_blocks(2, {0, 65'535}), 2U);
  EXPECT_EQ(hashed_blocks(65'536, {0, 0}), 1U);
  EXPECT_EQ(hashed_blocks(65'536, {0, 1}), 2U);
  EXPECT_EQ(hashed_blocks(131'073, {0, 65'535}), 3U);
}

}  // namespace
}  // namespace sparcl::test
