#include <array>
#include <bit>

#include "kernels/select.hpp"
#include "tests/kernels/every_body.hpp"

namespace sparcl::kernels {
namespace {

class SelectKernelsTest : public EveryBody {};

struct Picked {
  std::vector<std::uint16_t> positions;
  std::vector<std::uint64_t> keys;
  bool operator==(const Picked&) const = default;
};

Picked pick(const SelectKernels& kernels, const std::byte* array, std::size_t count,
            std::uint64_t least, std::uint64_t cap) {
  Picked picked{std::vector<std::uint16_t>(count + kPositionSlack), {}};
  picked.positions.resize(kernels.find_at_least(array, count, 300, least, picked.positions.data()));
  picked.keys.resize(picked.positions.size());
  kernels.magnitude_keys(array, picked.positions.data(), picked.positions.size(), 300, cap,
                         picked.keys.data());
  return picked;
}

template <class T>
std::vector<std::byte> bytes_of(std::initializer_list<T> values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

TEST_P(SelectKernelsTest, OrdersFloatsByMagnitudeWithNansOnTop) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto array = bytes_of<float>({0.0f, -0.0f, 1.0f, -2.0f, infinity, -nan, 1e-45f});
  const SelectKernels& kernels = body().select_of(DataType::kFloat32);
  const auto key = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  const std::uint64_t cap = key(infinity) + 1;
  EXPECT_EQ(pick(kernels, array.data(), 7, 1, cap).positions,
            (std::vector<std::uint16_t>{302, 303, 304, 305, 306}));
  EXPECT_EQ(pick(kernels, array.data(), 7, key(2.0f), cap),
            (Picked{{303, 304, 305}, {key(2.0f), key(infinity), cap}}));
  EXPECT_EQ(pick(kernels, array.data(), 7, 0, cap).positions.size(), 7u);
}

TEST_P(SelectKernelsTest, TakesTheLeastIntegerForTheLargest) {
  const auto array = bytes_of<std::int16_t>({-32768, 32767, -1, 0});
  EXPECT_EQ(pick(body().select_of(DataType::kInt16), array.data(), 4, 1, ~std::uint64_t{0}),
            (Picked{{300, 301, 302}, {32768, 32767, 1}}));
  EXPECT_EQ(pick(body().select_of(DataType::kUint16), array.data(), 4, 32768, ~std::uint64_t{0}),
            (Picked{{300, 302}, {32768, 65535}}));
  EXPECT_TRUE(pick(body().select_of(DataType::kInt16), array.data(), 4, 65536, ~std::uint64_t{0})
                  .positions.empty());
}

TEST_P(SelectKernelsTest, AgreesWithTheReference) {
  std::mt19937_64 random(11);
  for (std::size_t log_width = 0; log_width < 4; ++log_width) {
    const std::size_t width = std::size_t{1} << log_width;
    for (std::size_t numbers = 0; numbers < 3; ++numbers) {
      for (const std::size_t count : interesting_counts()) {
        const std::size_t misaligned = random() % 64;
        const auto array = random_bytes(count * width + 64, random);
        const unsigned spare = static_cast<unsigned>(64 - 8 * width);
        const std::uint64_t least = random() >> spare >> (random() % 8);
        ASSERT_TRUE(pick(body().elements[log_width].select[numbers], array.data() + misaligned,
                         count, least, least + least / 2) ==
                    pick(reference().elements[log_width].select[numbers], array.data() + misaligned,
                         count, least, least + least / 2))
            << "width " << width << " numbers " << numbers << " count " << count;
      }
    }
  }
}

SPARCL_FOR_EVERY_BODY(SelectKernelsTest);

}  // namespace
}  // namespace sparcl::kernels
