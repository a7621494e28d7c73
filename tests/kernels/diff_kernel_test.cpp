#include <bit>

#include "kernels/diff.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class DiffKernels : public EveryBody {};

std::vector<std::uint16_t> diff(const KernelSet& set, std::size_t width, const std::byte* base,
                                const std::byte* target, std::size_t count, std::uint32_t first) {
  std::vector<std::uint16_t> positions(count + kPositionSlack);
  positions.resize(set.elements[static_cast<std::size_t>(std::countr_zero(width))].diff(
      base, target, count, first, positions.data()));
  return positions;
}

TEST_P(DiffKernels, DiffFindsEachByteOfEachElement) {
  std::mt19937_64 random(1);
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const std::size_t count = 200;
    const auto base = random_bytes(count * width, random);
    for (std::size_t byte = 0; byte < base.size(); ++byte) {
      auto target = base;
      target[byte] ^= std::byte{0x80};
      const auto found = diff(body(), width, base.data(), target.data(), count, 1000);
      ASSERT_EQ(found.size(), 1u) << "width " << width << " byte " << byte;
      ASSERT_EQ(found[0], 1000 + byte / width);
    }
  }
}

TEST_P(DiffKernels, DiffAgreesWithTheReference) {
  std::mt19937_64 random(2);
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    for (const std::size_t count : interesting_counts()) {
      for (const unsigned percent : {0u, 1u, 10u, 50u, 100u}) {
        const std::size_t misaligned = random() % 64;
        const auto base = random_bytes(count * width + 64, random);
        auto target = base;
        for (std::size_t i = 0; i < count; ++i) {
          if (random() % 100 < percent)
            target[misaligned + i * width + random() % width] ^=
                static_cast<std::byte>(1 + random() % 255);
        }
        ASSERT_EQ(
            diff(body(), width, base.data() + misaligned, target.data() + misaligned, count, 60000),
            diff(reference(), width, base.data() + misaligned, target.data() + misaligned, count,
                 60000))
            << "width " << width << " count " << count << " " << percent << " %";
      }
    }
  }
}

TEST_P(DiffKernels, DiffValuesFindsTheSameAndBringsTheValues) {
  std::mt19937_64 random(3);
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const ElementKernels& kernels =
        body().elements[static_cast<std::size_t>(std::countr_zero(width))];
    for (const std::size_t count : interesting_counts()) {
      for (const unsigned percent : {0u, 1u, 10u, 50u, 100u}) {
        const auto base = random_bytes(count * width, random);
        auto target = base;
        for (std::size_t i = 0; i < count; ++i) {
          if (random() % 100 < percent)
            target[i * width + random() % width] ^= static_cast<std::byte>(1 + random() % 255);
        }
        const auto expected = diff(reference(), width, base.data(), target.data(), count, 77);
        std::vector<std::uint16_t> positions(count + kPositionSlack);
        std::vector<std::byte> olds(count * width + kValueSlackBytes),
            news(count * width + kValueSlackBytes);
        positions.resize(kernels.diff_values(base.data(), target.data(), count, 77,
                                             positions.data(), olds.data(), news.data()));
        ASSERT_EQ(positions, expected)
            << "width " << width << " count " << count << " " << percent << " %";
        for (std::size_t i = 0; i < positions.size(); ++i) {
          const std::size_t at = (positions[i] - 77u) * width;
          ASSERT_EQ(std::memcmp(&olds[i * width], &base[at], width), 0)
              << "width " << width << " count " << count;
          ASSERT_EQ(std::memcmp(&news[i * width], &target[at], width), 0)
              << "width " << width << " count " << count;
        }
      }
    }
  }
}

TEST_P(DiffKernels, DiffOfAWholeBlockCountsTo65535) {
  for (const std::size_t width : {1u, 2u, 4u, 8u}) {
    const std::vector<std::byte> base(65536 * width, std::byte{0});
    const std::vector<std::byte> target(65536 * width, std::byte{1});
    const auto found = diff(body(), width, base.data(), target.data(), 65536, 0);
    ASSERT_EQ(found.size(), 65536u);
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], i);
  }
}

TEST_P(DiffKernels, DiffComparesBitsNotFloats) {
  const float numbers[][2] = {
      {0.0f, -0.0f},
      {std::bit_cast<float>(0x7fc00001u), std::bit_cast<float>(0x7fc00002u)},
      {std::bit_cast<float>(0x7fc00001u), std::bit_cast<float>(0x7fc00001u)}};
  std::vector<float> base, target;
  for (const auto& pair : numbers) {
    base.push_back(pair[0]);
    target.push_back(pair[1]);
  }
  const auto found = diff(body(), 4, reinterpret_cast<const std::byte*>(base.data()),
                          reinterpret_cast<const std::byte*>(target.data()), 3, 0);
  EXPECT_EQ(found, (std::vector<std::uint16_t>{0, 1}))
      << "-0 differs from +0, and a NaN equals only itself";
}

SPARCL_FOR_EVERY_BODY(DiffKernels);

}  // namespace
}  // namespace sparcl::kernels
