#include "src/model/bisect.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/codec/update.hpp"

namespace sparcl::model {
namespace {

constexpr Hash128 kSchema{11, 12};

// Many blocks of few bytes: neighbouring arrays of other types begin a block each.
struct Many {
  explicit Many(std::size_t blocks) : bytes(blocks) {
    std::mt19937_64 random(blocks);
    for (std::size_t i = 0; i < blocks; ++i) {
      specs.push_back({i % 2 == 0 ? DataType::kUint8 : DataType::kInt8, 1});
      bytes[i] = static_cast<std::byte>(random());
    }
  }
  std::vector<const std::byte*> arrays() const {
    std::vector<const std::byte*> all;
    for (const std::byte& byte : bytes) all.push_back(&byte);
    return all;
  }

  std::vector<codec::ArraySpec> specs;
  std::vector<std::byte> bytes;
};

struct Search {
  std::set<std::uint64_t> found;
  int exchanges = 0;
  std::size_t message_bytes = 0;
};

BlockSums sums_of(const codec::BlockMap& map, const Many& state) {
  BlockSums sums(map, state.arrays(), kSchema);
  EXPECT_TRUE(sums.step(~std::uint64_t{0}));
  return sums;
}

Search search(const Many& here, const Many& there) {
  const codec::BlockMap map(here.specs);
  const BlockSums own = sums_of(map, here);
  const BlockSums other = sums_of(map, there);
  Search result;
  Suspects suspects = all_blocks(own);
  for (; !settled(suspects); ++result.exchanges) {
    const std::vector<std::byte> question = bisect_question(own, suspects);
    const Result<std::vector<std::byte>> answer = bisect_answer(other, question);
    EXPECT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_LE(question.size(), (1u << 20) + (1u << 15));
    result.message_bytes += question.size() + answer->size();
    EXPECT_TRUE(bisect_narrow(suspects, own.block_count(), *answer).ok());
  }
  for (const SuspectRange& range : suspects) result.found.insert(range.first);
  EXPECT_EQ(result.found.size(), suspects.size());
  return result;
}

// Levels of the tree: 64-way.
int levels(std::size_t blocks) {
  int count = 1;
  for (std::size_t reach = 64; reach < blocks; reach *= 64) ++count;
  return count;
}

TEST(Bisect, EqualStatesTakeOneExchange) {
  for (const std::size_t blocks : {1u, 2u, 63u, 64u, 65u, 4096u, 4097u, 30000u}) {
    const Many state(blocks);
    const Search result = search(state, state);
    EXPECT_TRUE(result.found.empty());
    EXPECT_EQ(result.exchanges, 1) << blocks;
  }
}

TEST(Bisect, AStateWithoutBlocksIsSettled) {
  const Search result = search(Many(0), Many(0));
  EXPECT_EQ(result.exchanges, 0);
}

TEST(Bisect, OneBlockIsFoundInAsManyExchangesAsTheTreeHasLevels) {
  for (const std::size_t blocks : {1u, 2u, 63u, 64u, 65u, 4096u, 4097u, 30000u}) {
    for (const std::size_t odd : {std::size_t{0}, blocks / 2, blocks - 1}) {
      const Many here(blocks);
      Many there = here;
      there.bytes[odd] ^= std::byte{0x80};
      const Search result = search(here, there);
      EXPECT_EQ(result.found, std::set<std::uint64_t>{odd});
      EXPECT_EQ(result.exchanges, levels(blocks)) << blocks;
      EXPECT_LE(result.message_bytes, static_cast<std::size_t>(result.exchanges) * 1200);
    }
  }
}

TEST(Bisect, ManyBlocksAreFoundTogether) {
  const Many here(30000);
  Many there = here;
  std::mt19937_64 random(4);
  std::set<std::uint64_t> odd;
  for (int i = 0; i < 300; ++i) {
    const std::size_t block = random() % 30000;
    if (odd.insert(block).second) there.bytes[block] ^= static_cast<std::byte>(1 + random() % 255);
  }
  const Search result = search(here, there);
  EXPECT_EQ(result.found, odd);
  EXPECT_EQ(result.exchanges, levels(30000));
}

TEST(Bisect, AllBlocksTakeAMessageForEvery1024Ranges) {
  const std::size_t blocks = 70000;  // 1094 ranges of 64 at the last level
  const Many here(blocks);
  Many there = here;
  for (std::byte& byte : there.bytes) byte ^= std::byte{1};
  const Search result = search(here, there);
  EXPECT_EQ(result.found.size(), blocks);
  EXPECT_EQ(result.exchanges, levels(blocks) + 1);
}

TEST(Bisect, RefusesWhatIsNoQuestion) {
  const Many state(5000);
  const codec::BlockMap map(state.specs);
  const BlockSums sums = sums_of(map, state);
  const std::vector<std::byte> question = bisect_question(sums, all_blocks(sums));
  ASSERT_TRUE(bisect_answer(sums, question).ok());
  for (std::size_t cut = 0; cut < question.size(); ++cut) {
    EXPECT_EQ(bisect_answer(sums, std::span(question).first(cut)).status().code(), Code::kCorrupt)
        << cut;
  }
  const auto with = [&](std::size_t at, std::uint8_t value) {
    std::vector<std::byte> copy = question;
    copy[at] = std::byte{value};
    return bisect_answer(sums, copy).status().code();
  };
  EXPECT_EQ(with(0, 1), Code::kCorrupt);     // version
  EXPECT_EQ(with(1, 99), Code::kMismatch);   // schema
  EXPECT_EQ(with(17, 99), Code::kMismatch);  // blocks
  EXPECT_EQ(with(25, 2), Code::kCorrupt);    // ranges: too few bytes
  EXPECT_EQ(with(28, 0xff), Code::kCorrupt);
  EXPECT_EQ(with(29, 1), Code::kCorrupt);     // first: not a multiple of the count
  EXPECT_EQ(with(36, 0x7f), Code::kCorrupt);  // first: past the last
  for (std::size_t at = 37; at < 45; ++at) {
    for (const std::uint8_t value : {0x01, 0x03, 0x80, 0xff}) {
      if (question[at] == std::byte{value}) continue;
      EXPECT_EQ(with(at, value), Code::kCorrupt) << at;
    }
  }
  std::vector<std::byte> longer = question;
  longer.push_back(std::byte{0});
  EXPECT_EQ(bisect_answer(sums, longer).status().code(), Code::kCorrupt);
}

TEST(Bisect, RefusesWhatIsNoAnswer) {
  const Many state(100);
  const codec::BlockMap map(state.specs);
  const BlockSums sums = sums_of(map, state);
  Suspects suspects =
      all_blocks(sums);  // 4096 blocks in children of 64, of which two begin before the end
  const Suspects before = suspects;
  EXPECT_EQ(bisect_narrow(suspects, 100, {}).code(), Code::kCorrupt);
  std::vector<std::byte> answer(8);
  answer[0] = std::byte{4};
  EXPECT_EQ(bisect_narrow(suspects, 100, answer).code(), Code::kCorrupt);
  answer.resize(9);
  answer[0] = std::byte{3};
  EXPECT_EQ(bisect_narrow(suspects, 100, answer).code(), Code::kCorrupt);
  EXPECT_EQ(suspects, before);
  answer.resize(8);
  EXPECT_TRUE(bisect_narrow(suspects, 100, answer).ok());
  EXPECT_EQ(suspects, (Suspects{{0, 64}, {64, 64}}));
}

TEST(BlockSums, StepByStepTheyMakeTheStateHash) {
  const std::vector<codec::ArraySpec> specs{
      {DataType::kBfloat16, 300000}, {DataType::kFloat32, 70000}, {DataType::kFloat32, 5}};
  std::vector<std::vector<std::byte>> arrays;
  std::vector<const std::byte*> pointers;
  std::mt19937_64 random(9);
  for (const codec::ArraySpec& spec : specs) {
    arrays.emplace_back(spec.count * element_bytes(spec.datatype));
    for (std::byte& byte : arrays.back()) byte = static_cast<std::byte>(random());
    pointers.push_back(arrays.back().data());
  }
  const codec::BlockMap map(specs);
  BlockSums sweep(map, pointers, kSchema);
  EXPECT_EQ(map.block_count(), 7u);
  EXPECT_FALSE(sweep.step(0));
  EXPECT_FALSE(sweep.step(3));
  EXPECT_EQ(sweep.next_block(), 3u);
  EXPECT_FALSE(sweep.step(3));
  EXPECT_TRUE(sweep.step(3));
  EXPECT_TRUE(sweep.step(3)) << "and stays there";
  EXPECT_EQ(sweep.state_hash(), codec::state_hash(map, pointers, kSchema));
  EXPECT_EQ(kSchema + sweep.of(0, 4) + sweep.of(4, 0) + sweep.of(4, 3), sweep.state_hash());

  arrays[0][7] ^= std::byte{1};
  EXPECT_NE(sweep.state_hash(), codec::state_hash(map, pointers, kSchema))
      << "it is of what was there";
  sweep.restart();
  EXPECT_FALSE(sweep.finished());
  EXPECT_TRUE(sweep.step(100));
  EXPECT_EQ(sweep.state_hash(), codec::state_hash(map, pointers, kSchema));
}

}  // namespace
}  // namespace sparcl::model
