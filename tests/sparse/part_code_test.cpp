// Parts that are coded and expanded are the parts that they were; hostile messages are refused.
#include "src/sparse/parts/part_code.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "src/base/buffer_pool.hpp"
#include "src/sparse/parts/scaled_pieces.hpp"
#include "src/sparse/selection/group_rounding.hpp"
#include "src/sparse/selection/scaled_values.hpp"

namespace sparcl::sparse {
namespace {

using Bytes = std::vector<std::byte>;

// Each element of the run with this probability.
std::vector<std::uint64_t> random_indices(const BlockRun& run, double density,
                                          std::mt19937_64& random) {
  std::vector<std::uint64_t> indices;
  std::geometric_distribution<std::uint64_t> gap(std::min(density, 1 - 1e-12));
  for (std::uint64_t at = run.first_index() + gap(random); at < run.end_index();
       at += 1 + gap(random))
    indices.push_back(at);
  return indices;
}

Bytes random_values(std::size_t count, std::size_t value_bytes, std::mt19937_64& random) {
  Bytes values(count * value_bytes);
  for (std::byte& byte : values) byte = static_cast<std::byte>(random());
  return values;
}

Bytes normal_floats(std::size_t count, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0, 1e-3F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  Bytes bytes(count * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes bytes_of(const Buffer& buffer) { return {buffer.data(), buffer.data() + buffer.size()}; }

class PartCode : public ::testing::Test {
 protected:
  Buffer part_of(const PartShape& shape, std::span<const std::uint64_t> indices,
                 const Bytes& values) {
    return write_part(buffers_, kernels_, shape.run, indices, values.data(), shape.value_bytes);
  }
  // Returns the bytes of the message, of a part that is not coded its own.
  std::size_t expect_same(const PartShape& shape, std::span<const std::uint64_t> indices,
                          const Bytes& values) {
    const Buffer part = part_of(shape, indices, values);
    const std::optional<Buffer> message = coder_.code(buffers_, part.bytes(), shape);
    if (!message) return part.size();
    EXPECT_LT(message->size(), part.size());
    const std::optional<Buffer> again =
        coder_.expand(buffers_, message->bytes(), shape, part.size());
    EXPECT_TRUE(again && bytes_of(*again) == bytes_of(part)) << indices.size() << " entries";
    EXPECT_FALSE(coder_.expand(buffers_, message->bytes(), shape, part.size() - 1))
        << "a part larger than it may be";
    return message->size();
  }

  const kernels::KernelSet& kernels_ = kernels::cpu_kernels();
  BufferPool buffers_;
  PartCoder coder_{kernels_};
  std::mt19937_64 random_{7};
};

TEST_F(PartCode, GivesThePartBackAtEachDensityAndWidth) {
  for (const unsigned log2 : {12U, 13U, 16U}) {
    for (const double density : {1e-5, 1e-3, 0.01, 0.05, 0.3, 0.9, 1.0}) {
      for (const std::size_t width :
           {std::size_t{0}, std::size_t{2}, std::size_t{4}, std::size_t{8}}) {
        const PartShape shape{{5, std::uint64_t{1} << (20 - log2), log2}, width};
        const std::vector<std::uint64_t> indices = random_indices(shape.run, density, random_);
        expect_same(shape, indices, random_values(indices.size(), width, random_));
      }
    }
  }
}

// The formula's bytes: values, and the entropy of the places.
TEST_F(PartCode, PlacesTakeAboutTheirEntropy) {
  for (const double density : {1e-4, 1e-3, 0.01, 0.1, 0.5}) {
    const PartShape shape{{0, 256}, 4};
    const std::vector<std::uint64_t> indices = random_indices(shape.run, density, random_);
    const double k = static_cast<double>(indices.size()), p = k / (256.0 * 65536);
    const double place_bits = -std::log2(p) - (1 - p) / p * std::log2(1 - p);
    const std::size_t bytes =
        expect_same(shape, indices, random_values(indices.size(), 4, random_));
    EXPECT_LE(static_cast<double>(bytes), 1.05 * k * (4 + place_bits / 8)) << density;
  }
}

TEST_F(PartCode, FarApartAndSideBySide) {
  const PartShape shape{{std::uint64_t{1} << 40, std::uint64_t{1} << 18}, 4};  // 2^34 elements
  const std::uint64_t first = shape.run.first_index(), end = shape.run.end_index();
  std::vector<std::uint64_t> indices;
  for (std::uint64_t i = 0; i < 40; ++i) indices.push_back(first + i);
  for (std::uint64_t i = 0; i < 40; ++i) indices.push_back(first + (i + 1) * 300'000'000);
  for (std::uint64_t i = 40; i > 0; --i) indices.push_back(end - i);
  expect_same(shape, indices, random_values(indices.size(), 4, random_));
}

TEST_F(PartCode, ScaledValuesTakeAByte) {
  const PartShape shape{{0, 64}, 4, ValueForm::kScaled8};
  const std::vector<std::uint64_t> indices = random_indices(shape.run, 0.01, random_);
  Bytes values = normal_floats(indices.size(), random_);
  round_to_scaled(values.data(), indices.size(), values.data());
  const std::size_t bytes = expect_same(shape, indices, values);
  EXPECT_LT(static_cast<double>(bytes), 2.2 * static_cast<double>(indices.size()));
  // Cut as sums cut them: groups then begin anywhere.
  const PartShape half{{32, 32}, 4, ValueForm::kScaled8};
  const std::size_t before = count_below(indices, half.run.first_index());
  const std::size_t half_bytes =
      expect_same(half, std::span(indices).subspan(before),
                  Bytes(values.begin() + static_cast<std::ptrdiff_t>(4 * before), values.end()));
  EXPECT_LT(static_cast<double>(half_bytes), 2.2 * static_cast<double>(indices.size() - before));
}

constexpr struct {
  ValueForm form;
  double max_bits;  // of an entry at density 1 / 64; its position has an entropy of 7.43
} kGroupForms[] = {{ValueForm::kScaled4, 11.7}, {ValueForm::kScaled2, 9.7}};

TEST_F(PartCode, ValuesOfFourAndTwoBitsTakeThem) {
  for (const auto& [form, max_bits] : kGroupForms) {
    const PartShape shape{{0, 64}, 4, form};
    const std::vector<std::uint64_t> indices = random_indices(shape.run, 1.0 / 64, random_);
    Bytes values = normal_floats(indices.size(), random_);
    round_to_groups(form, values.data(), indices.size(), values.data());
    const std::size_t bytes = expect_same(shape, indices, values);
    EXPECT_LE(8 * static_cast<double>(bytes), max_bits * static_cast<double>(indices.size()));
    // Cut as sums cut them: the sender says where the groups are.
    const BlockRun half_run{32, 32};
    const std::size_t before = count_below(indices, half_run.first_index());
    const std::size_t half_bytes =
        expect_same({half_run, 4, form, before}, std::span(indices).subspan(before),
                    Bytes(values.begin() + static_cast<std::ptrdiff_t>(4 * before), values.end()));
    EXPECT_LE(8 * static_cast<double>(half_bytes),
              max_bits * static_cast<double>(indices.size() - before));
  }
}

TEST_F(PartCode, ValuesThatWereNotRoundedStayUnmodified) {
  for (const auto& [form, max_bits] : kGroupForms) {
    const PartShape shape{{0, 8}, 4, form};
    const std::vector<std::uint64_t> indices = random_indices(shape.run, 1.0 / 64, random_);
    expect_same(shape, indices, normal_floats(indices.size(), random_));
  }
}

// A sum of untrusted parts may hold positions in any order: it travels as it is.
TEST_F(PartCode, LeavesWhatDoesNotAscend) {
  const PartShape shape{{3, 2}, 4};
  const std::vector<std::uint64_t> indices = random_indices(shape.run, 0.01, random_);
  const Buffer part = part_of(shape, indices, random_values(indices.size(), 4, random_));
  EXPECT_TRUE(coder_.code(buffers_, part.bytes(), shape));
  auto* const positions = reinterpret_cast<std::uint16_t*>(part.data() + kPartHeadBytes);
  std::swap(positions[10], positions[400]);
  ASSERT_TRUE(PartView::read(kernels_, part.bytes(), shape.run, 4));
  EXPECT_FALSE(coder_.code(buffers_, part.bytes(), shape));
}

TEST_F(PartCode, RefusesWhatIsNoCodedPart) {
  for (const ValueForm form : {ValueForm::kScaled8, ValueForm::kScaled4, ValueForm::kScaled2}) {
    const PartShape shape{{3, 16}, 4, form};
    const std::vector<std::uint64_t> indices = random_indices(shape.run, 0.01, random_);
    Bytes values = normal_floats(indices.size(), random_);
    if (form == ValueForm::kScaled8)
      round_to_scaled(values.data(), indices.size(), values.data());
    else
      round_to_groups(form, values.data(), indices.size(), values.data());
    const Buffer part = part_of(shape, indices, values);
    const Bytes message = bytes_of(coder_.code(buffers_, part.bytes(), shape).value());
    std::size_t refused = 0;
    for (int turn = 0; turn < 2000; ++turn) {
      Bytes wrong = message;
      for (int flips = 1 + turn % 3; flips > 0; --flips)
        wrong[random_() % (turn % 2 == 0 ? 48 : wrong.size())] ^=
            static_cast<std::byte>(1 << random_() % 8);
      if (turn % 5 == 0) wrong.resize(random_() % wrong.size());
      const std::optional<Buffer> got = coder_.expand(buffers_, wrong, shape, 2 * part.size());
      if (!got) {
        ++refused;
        continue;
      }
      EXPECT_TRUE(PartView::read(kernels_, got->bytes(), shape.run, shape.value_bytes));
    }
    EXPECT_GT(refused, 500U);
    EXPECT_FALSE(coder_.expand(buffers_, message, {{3, 4}, 4, form}, 2 * part.size()))
        << "indices behind the run";
    EXPECT_FALSE(coder_.expand(buffers_, message, {{3, 16}, 4}, 2 * part.size()))
        << "values of another form";
  }
}

Bytes of_floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(ScaledValues, AreWithinHalfAStepOfTheirGroupsLargest) {
  std::mt19937_64 random(11);
  for (const float size : {1e-44F, 1e-38F, 1e-3F, 1.0F, 3e38F}) {
    std::vector<float> values(3 * kScaledGroup + 5);
    for (float& value : values) value = size * std::uniform_real_distribution<float>(-1, 1)(random);
    Bytes rounded(values.size() * sizeof(float));
    round_to_scaled(of_floats(values).data(), values.size(), rounded.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      float got;
      std::memcpy(&got, rounded.data() + i * sizeof got, sizeof got);
      float largest = 0;
      for (std::size_t j = i / kScaledGroup * kScaledGroup;
           j < std::min(values.size(), (i / kScaledGroup + 1) * kScaledGroup); ++j)
        largest = std::max(largest, std::abs(values[j]));
      const double step = std::max(std::ldexp(1.0, -149), std::ldexp(1.0, std::ilogb(largest) - 5));
      EXPECT_LE(std::abs(static_cast<double>(got) - values[i]), step / 2) << size;
      EXPECT_FALSE(got == 0 && std::signbit(got));
    }
    Bytes twice(rounded.size());
    round_to_scaled(rounded.data(), values.size(), twice.data());
    EXPECT_EQ(twice, rounded);
    Bytes pieces;
    ASSERT_TRUE(append_scaled(rounded.data(), values.size(), pieces));
    EXPECT_LT(pieces.size(), values.size() + 5 * 4);
    Bytes again(rounded.size());
    ASSERT_TRUE(read_scaled(pieces, values.size(), again.data()));
    EXPECT_EQ(again, rounded);
  }
}

TEST(ScaledValues, TheLargestNumberStaysFinite) {
  const std::vector<float> values{std::numeric_limits<float>::max(),
                                  -std::numeric_limits<float>::max(), 1e38F};
  Bytes rounded(values.size() * sizeof(float));
  round_to_scaled(of_floats(values).data(), values.size(), rounded.data());
  EXPECT_EQ(rounded, of_floats({127 * 0x1p121F, -127 * 0x1p121F,
                                std::nearbyint(1e38F / 0x1p121F) * 0x1p121F}));
}

TEST(ScaledValues, GroupsWithoutANumberStayAsTheyAre) {
  std::vector<float> values(2 * kScaledGroup, 0.1F);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[4] = -0.0F;
  const Bytes given = of_floats(values);
  Bytes rounded(given.size());
  round_to_scaled(given.data(), values.size(), rounded.data());
  EXPECT_EQ(std::memcmp(rounded.data(), given.data(), kScaledGroup * sizeof(float)), 0);
  EXPECT_NE(std::memcmp(rounded.data() + kScaledGroup * sizeof(float), given.data(), sizeof(float)),
            0);
  Bytes pieces, again(given.size());
  ASSERT_TRUE(append_scaled(rounded.data(), values.size(), pieces));
  ASSERT_TRUE(read_scaled(pieces, values.size(), again.data()));
  EXPECT_EQ(again, rounded);
}

}  // namespace
}  // namespace sparcl::sparse
