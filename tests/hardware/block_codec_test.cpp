// The codec's blocks on a GPU: the codec's bytes, and back.

#include "kernels/cuda/block_codec.hpp"

#include <gtest/gtest.h>

#include "tests/emulated/clusters.hpp"
#include "tests/emulated/coded_blocks.hpp"
#include "tests/hardware/gpu_arrays.hpp"

namespace sparcl::test {
namespace {

using namespace kernels::cuda;  // NOLINT: what is tested

template <class Types>
class DeviceBlocks : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_gpu(); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
TYPED_TEST_SUITE(DeviceBlocks, ElementTypes);

// Diff, encode, decode and apply, each from what the one before has left on the GPU.
template <class Types>
void check(const TwoArrays<typename Types::Word>& arrays) {
  using Word = typename Types::Word;
  constexpr DataType kType = Types::kDataType;
  const std::size_t count = arrays.base.size();
  const std::uint64_t room = ListedChanges<Word>(arrays).positions.size(),
                      blocks = block_count(count);
  const DeviceArray<Word> base(arrays.base), target(arrays.target);
  const DeviceArray<std::uint16_t> positions(room);
  const DeviceArray<Word> old_values(room), new_values(room);
  const DeviceArray<std::uint64_t> starts(blocks + 1), refused(1);
  const DeviceChanges changes{positions.data(), old_values.data(), new_values.data(),
                              starts.data()};
  const DeviceArray<std::byte> space(
      std::max({diff_workspace_bytes(count), encode_workspace_bytes(count, room),
                decode_workspace_bytes(count, room)}));
  const Workspace workspace{space.data(), space.size()};
  ASSERT_TRUE(
      diff(base.data(), target.data(), count, sizeof(Word), changes, room, workspace, nullptr)
          .ok());
  const DeviceArray<std::byte> bytes(max_content_bytes(count, sizeof(Word)));
  const DeviceArray<BlockContent> places(blocks + 1);
  const DeviceArray<DeviceChangeHashes> sums(blocks), sums_again(blocks);
  const DeviceContents contents{bytes.data(), places.data()};
  const Status encoded = encode_blocks(changes, room, target.data(), count, kType, contents,
                                       sums.data(), workspace, nullptr);
  ASSERT_TRUE(encoded.ok()) << encoded.message();
  const std::vector<BlockContent> found = places.read();
  const std::vector<std::byte> all = bytes.read();
  const std::vector<DeviceChangeHashes> hashes = sums.read();
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t first = block * kBlockElements;
    const auto* const old_block = reinterpret_cast<const std::byte*>(arrays.base.data() + first);
    CodecBlock wanted(
        kType, old_block, reinterpret_cast<const std::byte*>(arrays.target.data() + first),
        static_cast<std::uint32_t>(std::min<std::size_t>(kBlockElements, count - first)));
    if (wanted.count() == 0) {
      ASSERT_EQ(found[block].mode, kernels::kNoBlock);
      continue;
    }
    const codec::BlockMode& mode = wanted.best();
    ASSERT_EQ(found[block].mode, mode.id) << "block " << block;
    ASSERT_TRUE(std::ranges::equal(std::span(all).subspan(found[block].offset, found[block].bytes),
                                   wanted.content(mode)))
        << "block " << block << ", mode " << mode.name;
    ASSERT_TRUE(are_same(hashes[block], wanted.hashes(mode, old_block))) << "block " << block;
  }

  const std::uint64_t most =
      blocks * kBlockElements;  // blocks that travel whole have more than what changes
  const DeviceArray<std::uint16_t> positions_again(most);
  const DeviceArray<Word> old_again(most), new_again(most);
  const DeviceArray<BlockError> errors(blocks);
  const DeviceArray<std::byte> more_space(decode_workspace_bytes(count, most));
  const DecodedBlocks decoded{
      {positions_again.data(), old_again.data(), new_again.data(), starts.data()},
      most,
      sums_again.data(),
      errors.data(),
      refused.data()};
  const std::uint64_t used = found[blocks].offset;
  const Status read = decode_blocks(contents, used, base.data(), count, kType, decoded,
                                    {more_space.data(), more_space.size()}, nullptr);
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(refused.read()[0], 0U);
  const std::vector<DeviceChangeHashes> again = sums_again.read();
  EXPECT_EQ(std::memcmp(again.data(), hashes.data(), blocks * sizeof(DeviceChangeHashes)), 0);
  ASSERT_TRUE(
      apply_decoded(decoded.changes, base.data(), count, sizeof(Word), refused.data(), nullptr)
          .ok());
  EXPECT_TRUE(base.read() == arrays.target);

  // One block is damaged: none is written.
  const auto some = static_cast<std::size_t>(
      std::ranges::find_if(found, [](const BlockContent& b) { return b.bytes > 0; }) -
      found.begin());
  if (some == found.size()) return;
  std::vector<BlockContent> damaged = found;
  ++damaged[some].bytes;
  const DeviceArray<BlockContent> bad(damaged);
  ASSERT_TRUE(decode_blocks({bytes.data(), bad.data()}, bytes.size(), base.data(), count, kType,
                            decoded, {more_space.data(), more_space.size()}, nullptr)
                  .ok());
  EXPECT_EQ(refused.read()[0], 1U);
  EXPECT_NE(errors.read()[some], BlockError::kNone);
  ASSERT_TRUE(
      apply_decoded(decoded.changes, base.data(), count, sizeof(Word), refused.data(), nullptr)
          .ok());
  EXPECT_TRUE(base.read() == arrays.target);
}

template <class Types>
void check(std::size_t count, std::vector<Density> densities, std::uint64_t seed) {
  SCOPED_TRACE(testing::Message() << count << " elements, seed " << seed);
  check<Types>({count, densities, info(Types::kDataType).is_float, seed});
}

TYPED_TEST(DeviceBlocks, HaveTheCodecsBytes) {
  using enum Change;
  check<TypeParam>(1, {{1000}}, 1);
  check<TypeParam>(3'001, {{300, kSmall}}, 2);
  check<TypeParam>(kBlockElements, {{1000, kOneOnly}}, 3);
  check<TypeParam>(5 * kBlockElements + 9,
                   {{10}, {0}, {500, kMostlyOne}, {200, kAny}, {900, kSmall}}, 4);
  check<TypeParam>(200 * kBlockElements + 9, {{10}, {3}, {0}, {20, kAny}}, 5);
}

TYPED_TEST(DeviceBlocks, OfClustersHaveTheCodecsBytes) {
  const bool is_float = info(TypeParam::kDataType).is_float;
  std::uint64_t seed = 5;
  for (const auto& [row_elements, every, permille] :
       {std::tuple{64, 50, 1000}, {256, 20, 600}, {3, 40, 1000}, {4'096, 9, 1000}}) {
    for (const Change kind : {Change::kMostlyOne, Change::kAny}) {
      SCOPED_TRACE(testing::Message() << "rows of " << row_elements);
      check<TypeParam>(
          {20 * kBlockElements + 9, kind, is_float, ++seed, rows(row_elements, every, permille)});
    }
  }
}

TYPED_TEST(DeviceBlocks, OfNothingAreNone) {
  const DeviceArray<std::uint64_t> starts(1), refused(1);
  const DeviceArray<BlockContent> places(1);
  const DeviceArray<std::byte> space(64);
  const Workspace workspace{space.data(), space.size()};
  const DeviceChanges changes{nullptr, nullptr, nullptr, starts.data()};
  ASSERT_TRUE(encode_blocks(changes, 0, nullptr, 0, TypeParam::kDataType, {nullptr, places.data()},
                            nullptr, workspace, nullptr)
                  .ok());
  EXPECT_EQ(places.read()[0].offset, 0U);
  ASSERT_TRUE(decode_blocks({nullptr, places.data()}, 0, nullptr, 0, TypeParam::kDataType,
                            {changes, 0, nullptr, nullptr, refused.data()}, workspace, nullptr)
                  .ok());
  EXPECT_EQ(starts.read()[0], 0U);
  EXPECT_EQ(refused.read()[0], 0U);
}

// Arguments are checked before anything is asked of a GPU.
TEST(DeviceBlockSizes, SmallWorkspacesAreRefused) {
  std::byte byte{};
  const Status encoded =
      encode_blocks({}, 10, nullptr, 100, DataType::kFloat32, {}, nullptr, {&byte, 1}, nullptr);
  EXPECT_EQ(encoded.code(), Code::kInvalidArgument);
  EXPECT_NE(encoded.message().find("workspace"), std::string::npos) << encoded.message();
  EXPECT_EQ(decode_blocks({}, 0, nullptr, 100, DataType::kFloat32, {}, {&byte, 1}, nullptr).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(apply_decoded({}, nullptr, 100, 3, nullptr, nullptr).code(), Code::kInvalidArgument);
  EXPECT_GE(max_content_bytes(100'001, 2), 200'002U);
  EXPECT_EQ(text_of(BlockError::kStep), "has a step larger than its data type");
}

}  // namespace
}  // namespace sparcl::test
