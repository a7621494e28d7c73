#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "kernels/step.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class StepKernels : public EveryBody {};

const OrderKernels& order_of(const KernelSet& set, std::size_t log_width, bool floating) {
  return floating ? set.elements[log_width].floating : set.elements[log_width].integer;
}

struct Split {
  std::vector<std::byte> magnitudes;
  std::vector<std::uint64_t> negative;
  bool operator==(const Split&) const = default;
};

Split split(const OrderKernels& kernels, std::size_t width, std::span<const std::byte> olds,
            std::span<const std::byte> news) {
  const std::size_t count = olds.size() / width;
  Split result{std::vector<std::byte>(olds.size()),
               std::vector<std::uint64_t>(count / 64 + 1, ~std::uint64_t{0})};
  kernels.split_steps(olds.data(), news.data(), count, result.magnitudes.data(),
                      result.negative.data());
  return result;
}

// Random bits with the values around which the map bends: zeros, infinities, NaNs, the largest and
// least of each width.
std::vector<std::byte> values_with_edges(std::size_t count, std::size_t width,
                                         std::mt19937_64& random) {
  auto bytes = random_bytes(count * width, random);
  for (std::size_t i = 0; i < count; i += 2) {
    const std::uint64_t top = std::uint64_t{1} << (8 * width - 1);
    const std::array<std::uint64_t, 9> edges{0,       top,     top - 1,       ~std::uint64_t{0}, 1,
                                             top + 1, top / 2, top + top / 2, top - top / 256};
    const std::uint64_t edge = edges[random() % edges.size()];
    std::memcpy(bytes.data() + i * width, &edge, width);
  }
  return bytes;
}

TEST_P(StepKernels, SplitStepsAgreesWithTheReference) {
  std::mt19937_64 random(5);
  for (std::size_t log_width = 0; log_width < 4; ++log_width) {
    const std::size_t width = std::size_t{1} << log_width;
    for (const bool floating : {false, true}) {
      for (const std::size_t count : interesting_counts()) {
        const auto olds = values_with_edges(count, width, random);
        const auto news = values_with_edges(count, width, random);
        ASSERT_TRUE(split(order_of(body(), log_width, floating), width, olds, news) ==
                    split(order_of(reference(), log_width, floating), width, olds, news))
            << "width " << width << " count " << count;
      }
    }
  }
}

TEST_P(StepKernels, AddStepsUndoesSplitSteps) {
  std::mt19937_64 random(6);
  for (std::size_t log_width = 0; log_width < 4; ++log_width) {
    const std::size_t width = std::size_t{1} << log_width;
    for (const bool floating : {false, true}) {
      for (const std::size_t count : interesting_counts()) {
        const auto olds = values_with_edges(count, width, random);
        const auto news = values_with_edges(count, width, random);
        const OrderKernels& kernels = order_of(body(), log_width, floating);
        Split parts = split(kernels, width, olds, news);
        for (std::size_t i = 0; i < count; ++i) {
          std::uint64_t step = 0;
          std::memcpy(&step, parts.magnitudes.data() + i * width, width);
          if ((parts.negative[i / 64] >> (i % 64) & 1) != 0) step = 0 - step;
          std::memcpy(parts.magnitudes.data() + i * width, &step, width);
        }
        auto values = olds;  // in place
        kernels.add_steps(values.data(), parts.magnitudes.data(), count, values.data());
        ASSERT_TRUE(values == news) << "width " << width << " count " << count;
      }
    }
  }
}

TEST_P(StepKernels, NeighboursOfAllFormatsAreOneStepApart) {
  const std::array<std::uint16_t, 4> olds{0x3f80, 0xbf80, 0x8000,
                                          0x7f80};  // bf16: 1, -1, -0, infinity
  const std::array<std::uint16_t, 4> news{0x3f81, 0xbf81, 0x0000,
                                          0x7f7f};  // the next up, the next down, +0, the largest
  const Split parts = split(body().elements[1].floating, 2, std::as_bytes(std::span(olds)),
                            std::as_bytes(std::span(news)));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(std::to_integer<int>(parts.magnitudes[2 * i]), 1) << i;
  EXPECT_EQ(parts.negative[0], 0b1010u);
}

TEST_P(StepKernels, FindNotOneAgreesWithTheReference) {
  std::mt19937_64 random(7);
  for (std::size_t log_width = 0; log_width < 4; ++log_width) {
    const std::size_t width = std::size_t{1} << log_width;
    for (const std::size_t count : interesting_counts()) {
      std::vector<std::byte> magnitudes(count * width);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t one = random() % 10 != 0  ? 1
                                  : random() % 3 == 0 ? (std::uint64_t{1} << (8 * width - 1)) + 1
                                                      : 2;
        std::memcpy(magnitudes.data() + i * width, &one, width);
      }
      const auto find = [&](const KernelSet& set) {
        std::vector<std::uint16_t> indices(count + kPositionSlack);
        indices.resize(
            set.elements[log_width].find_not_one(magnitudes.data(), count, indices.data()));
        return indices;
      };
      ASSERT_EQ(find(body()), find(reference())) << "width " << width << " count " << count;
    }
  }
}

TEST_P(StepKernels, UnitStepsReadBitsAtAnyPlace) {
  std::mt19937_64 random(8);
  for (std::size_t log_width = 0; log_width < 4; ++log_width) {
    const std::size_t width = std::size_t{1} << log_width;
    for (const std::size_t count : interesting_counts()) {
      const std::uint64_t bit = random() % 100;
      const auto bits = random_bytes((bit + count + 7) / 8 + kBitSlackBytes, random);
      std::vector<std::byte> steps(count * width), expected(count * width);
      body().elements[log_width].unit_steps(bits.data(), bit, count, steps.data());
      reference().elements[log_width].unit_steps(bits.data(), bit, count, expected.data());
      ASSERT_TRUE(steps == expected) << "width " << width << " count " << count << " bit " << bit;
    }
  }
}

SPARCL_FOR_EVERY_BODY(StepKernels);

}  // namespace
}  // namespace sparcl::kernels
