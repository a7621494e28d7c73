// Arrays of more than 2^32 elements and of more than 4 GiB, in address space without memory behind
// it: what changes lies before, around and behind the places where 32 bits end.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/codec/sparse_vector.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/support/sparse_memory.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

using test::SparseMemory;

constexpr std::uint64_t kFourGi = std::uint64_t{1} << 32;

class LargeArray : public testing::TestWithParam<ArraySpec> {
 protected:
  LargeArray() : base_(bytes()), target_(bytes()), held_(bytes()) {}

  void SetUp() override {
    if (base_.data() == nullptr || target_.data() == nullptr || held_.data() == nullptr) {
      GTEST_SKIP() << "no address space for three arrays of " << bytes() << " bytes";
    }
    // Each end of 32 bits, in elements and in bytes, and both sides of block edges.
    const std::uint64_t last = spec_.count - 1;
    for (const std::uint64_t edge : {std::uint64_t{0}, std::uint64_t{kBlockElements}, kFourGi / 2,
                                     kFourGi / width(), kFourGi, last}) {
      for (const std::uint64_t index : {edge - 1, edge, edge + 1, edge + kBlockElements - 1}) {
        if (index <= last) indices_.push_back(index);
      }
    }
    std::sort(indices_.begin(), indices_.end());
    indices_.erase(std::unique(indices_.begin(), indices_.end()), indices_.end());
    for (const std::uint64_t index : indices_)
      target_.data()[index * width()] = static_cast<std::byte>(index % 250 + 1);
  }

  std::size_t width() const { return element_bytes(spec_.datatype); }
  std::size_t bytes() const { return static_cast<std::size_t>(spec_.count * width()); }

  // Of the base's change to the target; hint nullptr: both are read through.
  std::vector<std::byte> encode_with(const ChangedHint* hint, EncodeOptions options = {}) {
    const std::byte* base = base_.data();
    const std::byte* target = target_.data();
    if (hint != nullptr) options.hints = {&hint, 1};
    UpdateEncoder encoder(map_, {&base, 1}, {&target, 1}, options, kernels::cpu_kernels());
    VectorSink sink;
    Status status;
    while (status.ok() && !encoder.finished()) status = encoder.step(std::uint64_t{1} << 30, sink);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(encoder.stats().changed, indices_.size());
    target_hash_ = encoder.stats().target_hash;
    return sink.bytes();
  }

  void apply(const std::vector<std::byte>& stream, Writing writing,
             Verify verify = Verify::kTouched) {
    std::byte* held = held_.data();
    const Staging& staging = staged(stream);
    UpdateDecoder decoder(map_, {&held, 1}, verify, {}, kernels::cpu_kernels(), writing);
    Status status = check_stream(decoder, staging, stream.size());
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(decoder.changed(), indices_.size());
    status = decoder.apply(staging);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // At the changes and beside them.
  void expect_target() const {
    for (const std::uint64_t index : indices_) {
      const std::uint64_t first = index == 0 ? 0 : index - 1;
      const std::uint64_t end = std::min(index + 2, spec_.count);
      ASSERT_TRUE(std::equal(held_.data() + first * width(), held_.data() + end * width(),
                             target_.data() + first * width()))
          << index;
    }
  }

  void take_back() {
    for (const std::uint64_t index : indices_) held_.data()[index * width()] = std::byte{0};
  }

  ArraySpec spec_ = GetParam();
  BlockMap map_{{&spec_, 1}};
  SparseMemory base_, target_, held_;
  std::vector<std::uint64_t> indices_;
  Hash128 target_hash_;
};

TEST_P(LargeArray, ComesBackWithHints) {
  const ChangedHint by_index{indices_, {}, 0};
  const std::vector<std::byte> stream = encode_with(&by_index);
  for (const std::uint64_t block_elements :
       {std::uint64_t{1000}, std::uint64_t{kBlockElements}, std::uint64_t{1} << 20}) {
    std::vector<std::uint64_t> bitmap(spec_.count / block_elements / 64 + 1);
    for (const std::uint64_t index : indices_) {
      bitmap[index / block_elements / 64] |= std::uint64_t{1} << (index / block_elements % 64);
    }
    const ChangedHint by_block{{}, bitmap, block_elements};
    EXPECT_TRUE(encode_with(&by_block) == stream) << "blocks of " << block_elements;
  }
  for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
    apply(stream, writing);
    expect_target();
    take_back();
  }
}

// Reads all of it several times: seconds.
TEST_P(LargeArray, ComesBackWithoutHints) {
  if (!test::long_tier()) GTEST_SKIP() << "reads some ten gigabytes: in the long tier";
  const ChangedHint by_index{indices_, {}, 0};
  EXPECT_TRUE(encode_with(nullptr) == encode_with(&by_index));
  EncodeOptions options;
  options.with_state_hash = true;
  options.allow_classes = true;
  options.fewest_bytes = true;
  apply(encode_with(nullptr, options), Writing::kStaged, Verify::kFull);
  expect_target();
  const std::byte* held = held_.data();
  EXPECT_TRUE(state_hash(map_, {&held, 1}, {}) == target_hash_);
}

INSTANTIATE_TEST_SUITE_P(Sizes, LargeArray,
                         testing::Values(ArraySpec{DataType::kFloat8e4m3, kFourGi + 70'000},
                                         ArraySpec{DataType::kUint8, kFourGi + 1},
                                         ArraySpec{DataType::kBfloat16, kFourGi / 2 + 70'000},
                                         ArraySpec{DataType::kBfloat16, kFourGi + 70'000},
                                         ArraySpec{DataType::kFloat32, kFourGi / 4 + 70'000}),
                         [](const auto& each) {
                           return fmt::format(
                               "{}_of_{}",
                               find_data_type(static_cast<int>(each.param.datatype))->name,
                               each.param.count);
                         });

TEST(LargeSparseVector, ComesBackAroundWhereBitsEnd) {
  std::vector<std::uint64_t> indices;
  for (const unsigned bits : {16u, 31u, 32u, 33u, 47u, 48u, 49u, 63u}) {
    const std::uint64_t end = std::uint64_t{1} << bits;
    indices.insert(indices.end(), {end - 2, end - 1, end, end + 1, end + kBlockElements});
  }
  indices.push_back(~std::uint64_t{0});
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  std::vector<std::uint32_t> values(indices.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint32_t>(i * 0x9e3779b9u + 1);
  SparseEncoder encoder(indices, std::as_bytes(std::span(values)).data(), DataType::kFloat32,
                        kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) ASSERT_TRUE(encoder.step(3, sink).ok());

  const Staging& staging = staged(sink.bytes());
  SparseDecoder decoder(DataType::kFloat32, kernels::cpu_kernels());
  for (bool more = true; more;)
    ASSERT_TRUE(decoder.advance(staging, sink.bytes().size(), 2, more).ok());
  ASSERT_TRUE(decoder.finish(sink.bytes().size()).ok());
  ASSERT_EQ(decoder.nnz(), indices.size());
  std::vector<std::uint64_t> got(indices.size());
  std::vector<std::uint32_t> got_values(indices.size());
  ASSERT_TRUE(
      decoder.extract(staging, got.data(), std::as_writable_bytes(std::span(got_values)).data())
          .ok());
  EXPECT_EQ(got, indices);
  EXPECT_EQ(got_values, values);
}

}  // namespace
}  // namespace sparcl::codec
