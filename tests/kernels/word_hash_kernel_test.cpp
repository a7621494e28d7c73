#include "kernels/word_hash.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class WordHashKernels : public EveryBody {};

std::vector<std::size_t> byte_counts() {
  std::vector<std::size_t> counts = interesting_counts();
  for (const std::size_t around :
       {std::size_t{4096}, std::size_t{8192}, std::size_t{131072}, kMaxStripes * kStripeBytes}) {
    for (const std::size_t less : {0u, 1u, 2u, 3u, 4u, 5u, 63u, 64u, 65u})
      counts.push_back(around - less);
  }
  return counts;
}

TEST(WordHashKeys, AreThoseOfTheDocument) {
  EXPECT_EQ(kHashKeys.words[0][0],
            0xe220a8397b1dcdafu);  // SplitMix64 from seed 0: its published first outputs
  EXPECT_EQ(kHashKeys.words[0][1], 0x6e789e6aa1b965f4u);
  EXPECT_EQ(kHashKeys.words[1][0], 0x06c45d188009454fu);
  EXPECT_EQ(kHashKeys.stripes[0][0], hash_key(2049) | 1);
  EXPECT_EQ(kHashKeys.stripes[127][1], hash_key(2048 + 256) | 1);
}

TEST_P(WordHashKernels, WordsSumAsInTheReferenceAtAnyAlignment) {
  std::mt19937_64 random(1);
  const auto bytes = random_bytes(kMaxStripes * kStripeBytes + 64, random);
  for (const std::size_t count : byte_counts()) {
    for (const std::size_t shift : {0u, 1u, 6u}) {
      const std::vector<std::byte> exact(
          bytes.begin() + static_cast<std::ptrdiff_t>(shift),
          bytes.begin() + static_cast<std::ptrdiff_t>(shift + count));
      ASSERT_EQ(body().hash_words(exact.data(), count), reference().hash_words(exact.data(), count))
          << count;
      ASSERT_EQ(body().hash_words(bytes.data() + shift, count),
                reference().hash_words(exact.data(), count))
          << count << " at " << shift;
    }
  }
}

TEST_P(WordHashKernels, WordsOfAllOnesDoNotOverflow) {
  const std::vector<std::byte> ones(kMaxStripes * kStripeBytes, std::byte{0xff});
  EXPECT_EQ(body().hash_words(ones.data(), ones.size()),
            reference().hash_words(ones.data(), ones.size()));
}

TEST_P(WordHashKernels, ChangesSumAsInTheReference) {
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const std::size_t count : interesting_counts()) {
      const auto all = random_positions(65536, 40, random);
      const std::vector<std::uint16_t> positions(all.end() - static_cast<std::ptrdiff_t>(count),
                                                 all.end());
      const auto olds = random_bytes(count * width, random);
      const auto news = random_bytes(count * width, random);
      const ChangeHashes sums =
          body().elements[i].hash_changes(positions.data(), count, olds.data(), news.data());
      const ChangeHashes expected =
          reference().elements[i].hash_changes(positions.data(), count, olds.data(), news.data());
      ASSERT_EQ(sums.old_values, expected.old_values) << "width " << width << " count " << count;
      ASSERT_EQ(sums.new_values, expected.new_values) << "width " << width << " count " << count;
    }
  }
}

// Near to each other and far apart, up to the last stripe of the block.
TEST_P(WordHashKernels, ChangesOfAnyDensitySumAsInTheReference) {
  std::mt19937_64 random(4);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const std::uint32_t max_gap : {1u, 3u, 60u, 250u, 1000u, 9000u}) {
      std::vector<std::uint16_t> positions;
      for (std::uint32_t at = random() % max_gap; at < 65536; at += 1 + random() % max_gap) {
        positions.push_back(static_cast<std::uint16_t>(at));
      }
      positions.back() = 65535;
      const auto olds = random_bytes(positions.size() * width, random);
      const auto news = random_bytes(positions.size() * width, random);
      const ChangeHashes sums = body().elements[i].hash_changes(positions.data(), positions.size(),
                                                                olds.data(), news.data());
      const ChangeHashes expected = reference().elements[i].hash_changes(
          positions.data(), positions.size(), olds.data(), news.data());
      ASSERT_EQ(sums.old_values, expected.old_values)
          << "width " << width << " gaps to " << max_gap;
      ASSERT_EQ(sums.new_values, expected.new_values)
          << "width " << width << " gaps to " << max_gap;
    }
  }
}

TEST_P(WordHashKernels, AChangeMovesTheSumsOfTheBlockByItself) {
  std::mt19937_64 random(3);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t width = std::size_t{1} << i;
    for (const std::size_t elements : {1u, 7u, 4099u, 65536u}) {
      const auto block = random_bytes(elements * width, random);
      auto changed = block;
      const auto positions = random_positions(elements, 20, random);
      std::vector<std::byte> olds(positions.size() * width);
      const auto news = random_bytes(positions.size() * width, random);
      reference().elements[i].gather(block.data(), positions.data(), positions.size(), 0,
                                     olds.data(), {});
      reference().elements[i].scatter(changed.data(), positions.data(), positions.size(), 0,
                                      news.data(), {});
      const ChangeHashes sums = body().elements[i].hash_changes(positions.data(), positions.size(),
                                                                olds.data(), news.data());
      EXPECT_EQ(body().hash_words(block.data(), block.size()) + sums.new_values - sums.old_values,
                body().hash_words(changed.data(), changed.size()))
          << "width " << width << " elements " << elements;
    }
  }
}

SPARCL_FOR_EVERY_BODY(WordHashKernels);

}  // namespace
}  // namespace sparcl::kernels
