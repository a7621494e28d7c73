#include "kernels/gamma.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class GammaKernels : public EveryBody {};

struct Coded {
  std::vector<std::uint8_t> lengths;
  std::uint64_t bits = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Coded&) const = default;
};

Coded coded(const KernelSet& set, const std::vector<std::uint64_t>& values, unsigned exponent,
            unsigned lead) {
  Coded result;
  result.lengths.resize(values.size());
  result.bits = set.gammas.lengths(values.data(), values.size(), exponent, result.lengths.data());
  result.bytes.resize((lead + result.bits + 7) / 8 + kBitSlackBytes,
                      std::byte{0x5a});  // nothing is written past the end
  BitWriter writer{result.bytes.data()};
  writer.put(0, lead);
  set.gammas.write(values.data(), result.lengths.data(), values.size(), exponent, writer);
  EXPECT_EQ(writer.finish(), result.bytes.data() + result.bytes.size() - kBitSlackBytes);
  return result;
}

std::vector<std::uint64_t> numbers(std::size_t count, unsigned max_bits, std::mt19937_64& random) {
  std::vector<std::uint64_t> values(count);
  for (std::uint64_t& value : values) value = random() >> (64 - 1 - random() % max_bits);
  return values;
}

TEST_P(GammaKernels, GammasComeBackAndAgreeWithTheReference) {
  std::mt19937_64 random(12);
  for (const std::size_t count : interesting_counts()) {
    for (const unsigned max_bits : {1u, 4u, 20u, 63u}) {
      for (const unsigned exponent : {0u, 1u, 5u, 31u, 62u}) {
        const auto values = numbers(count, max_bits, random);
        const auto lead = static_cast<unsigned>(random() % 64);
        const Coded made = coded(body(), values, exponent, lead);
        ASSERT_TRUE(made == coded(reference(), values, exponent, lead))
            << count << " values, exponent " << exponent;
        std::vector<std::uint8_t> lengths(count);
        std::vector<std::uint64_t> back(count);
        ASSERT_EQ(body().gammas.read(made.bytes.data(), lead, made.bits, count, exponent,
                                     lengths.data(), back.data()),
                  made.bits);
        ASSERT_TRUE(back == values && lengths == made.lengths)
            << count << " values, exponent " << exponent;
      }
    }
  }
}

TEST_P(GammaKernels, WidthsAgreeWithTheReference) {
  std::mt19937_64 random(15);
  for (const std::size_t count : interesting_counts()) {
    for (const std::uint64_t more : {0u, 1u}) {
      const auto values = numbers(count, 63, random);
      std::vector<std::uint32_t> widths(64, 77), expected(64);
      body().gammas.widths(values.data(), count, more, widths.data());
      reference().gammas.widths(values.data(), count, more, expected.data());
      ASSERT_EQ(widths, expected) << count;
    }
  }
  const std::vector<std::uint64_t> values{0, 1, 2, 3, 6, 7};
  std::vector<std::uint32_t> widths(64);
  body().gammas.widths(values.data(), values.size(), 0, widths.data());
  EXPECT_EQ(std::vector<std::uint32_t>(widths.begin(), widths.begin() + 5),
            (std::vector<std::uint32_t>{1, 2, 2, 1, 0}));
}

TEST_P(GammaKernels, GammasCutAnywhereAreRefused) {
  std::mt19937_64 random(13);
  const auto values = numbers(40, 20, random);
  const Coded made = coded(body(), values, 3, 7);
  std::vector<std::uint8_t> lengths(values.size());
  std::vector<std::uint64_t> back(values.size());
  for (std::uint64_t limit = 0; limit < made.bits; ++limit) {
    ASSERT_EQ(body().gammas.read(made.bytes.data(), 7, limit, values.size(), 3, lengths.data(),
                                 back.data()),
              kNoGammas)
        << limit;
  }
}

TEST_P(GammaKernels, GammasLongerThan63BitsAreRefused) {
  std::vector<std::byte> bytes(64 + kBitSlackBytes);
  bytes[7] = std::byte{0x80};  // 63 zeros and a one
  std::uint8_t length = 0;
  std::uint64_t value = 0;
  EXPECT_EQ(body().gammas.read(bytes.data(), 0, 8 * 64, 1, 0, &length, &value), 127u);
  EXPECT_EQ(value, (std::uint64_t{1} << 63) - 1);
  EXPECT_EQ(body().gammas.read(bytes.data(), 0, 8 * 64, 1, 1, &length, &value), kNoGammas);
  bytes[7] = std::byte{0};
  bytes[8] = std::byte{1};  // 64 zeros
  EXPECT_EQ(body().gammas.read(bytes.data(), 0, 8 * 64, 1, 0, &length, &value), kNoGammas);
}

TEST_P(GammaKernels, RandomBitsNeverReadPastTheirEnd) {
  std::mt19937_64 random(14);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t limit = random() % 300;
    auto bytes = random_bytes((limit + 7) / 8 + kBitSlackBytes, random);
    if (random() % 2 == 0) {
      for (std::byte& byte : bytes) byte &= static_cast<std::byte>(random() & random());
    }
    const std::size_t count = random() % 40;
    const auto exponent = static_cast<unsigned>(random() % 63);
    std::vector<std::uint8_t> lengths(count), expected_lengths(count);
    std::vector<std::uint64_t> values(count), expected(count);
    const std::uint64_t used =
        body().gammas.read(bytes.data(), 0, limit, count, exponent, lengths.data(), values.data());
    ASSERT_EQ(used, reference().gammas.read(bytes.data(), 0, limit, count, exponent,
                                            expected_lengths.data(), expected.data()));
    if (used == kNoGammas) continue;
    ASSERT_LE(used, limit);
    ASSERT_EQ(values, expected);
  }
}

SPARCL_FOR_EVERY_BODY(GammaKernels);

}  // namespace
}  // namespace sparcl::kernels
