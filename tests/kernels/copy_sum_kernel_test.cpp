#include "kernels/copy_sum.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class CopySumKernels : public EveryBody {};

std::vector<std::size_t> copied_counts() {
  std::vector<std::size_t> counts = interesting_counts();
  for (std::size_t count = 0; count < 200; ++count) counts.push_back(count);
  return counts;
}

TEST_P(CopySumKernels, CopyAndSumAreThoseOfTheReferenceAtAnyAlignment) {
  std::mt19937_64 random(1);
  for (const std::size_t count : copied_counts()) {
    for (const std::size_t shift : {0u, 1u, 6u}) {
      const auto from = random_bytes(count + shift, random);
      std::vector<std::byte> to(count + 8, std::byte{7}), expected(count);
      const std::uint64_t sum = body().copy_sum(from.data() + shift, count, to.data() + 3);
      ASSERT_EQ(sum, reference().copy_sum(from.data() + shift, count, expected.data())) << count;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), to.begin() + 3)) << count;
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), from.begin() + shift)) << count;
      ASSERT_EQ(to[2], std::byte{7});
      ASSERT_EQ(to[count + 3], std::byte{7});
      ASSERT_EQ(body().copy_sum(to.data() + 3, count, to.data() + 3), sum);
    }
  }
}

TEST_P(CopySumKernels, EachDamageIsSeen) {
  std::mt19937_64 random(2);
  auto bytes = random_bytes(8'192, random);
  const std::uint64_t sum = body().copy_sum(bytes.data(), bytes.size(), bytes.data());
  const auto now = [&] { return body().copy_sum(bytes.data(), bytes.size(), bytes.data()); };
  for (std::size_t bit = 0; bit < 8 * bytes.size(); bit += 37) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(now(), sum) << bit;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (std::size_t row = 0; row + 128 <= bytes.size(); row += 64) {  // rows that change places
    std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(row),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row + 64),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row + 64));
    ASSERT_NE(now(), sum) << row;
    std::swap_ranges(bytes.begin() + static_cast<std::ptrdiff_t>(row),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row + 64),
                     bytes.begin() + static_cast<std::ptrdiff_t>(row + 64));
  }
  ASSERT_EQ(now(), sum);
}

SPARCL_FOR_EVERY_BODY(CopySumKernels);

}  // namespace
}  // namespace sparcl::kernels
