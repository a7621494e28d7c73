#include "src/codec/change_scan.hpp"

#include <gtest/gtest.h>

#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

struct Hinted {
  std::vector<std::vector<std::uint64_t>> lists;
  std::vector<ChangedHint> hints;
  std::vector<const ChangedHint*> pointers;
};

// All changed elements, and some that are not.
Hinted hint_indices(const State& base, const State& target) {
  Hinted hinted;
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t width = element_bytes(base.specs[i].datatype);
    auto& list = hinted.lists.emplace_back();
    for (std::uint64_t j = 0; j < base.specs[i].count; ++j) {
      if (j % 997 == 0 ||
          std::memcmp(&base.arrays[i][j * width], &target.arrays[i][j * width], width) != 0)
        list.push_back(j);
    }
  }
  for (const auto& list : hinted.lists) hinted.hints.push_back({list, {}, 0});
  for (const ChangedHint& hint : hinted.hints) hinted.pointers.push_back(&hint);
  return hinted;
}

Hinted hint_blocks(const State& base, const State& target, std::uint64_t block) {
  Hinted hinted;
  for (std::size_t i = 0; i < base.arrays.size(); ++i) {
    const std::size_t width = element_bytes(base.specs[i].datatype);
    auto& words = hinted.lists.emplace_back((base.specs[i].count / block) / 64 + 1);
    for (std::uint64_t j = 0; j < base.specs[i].count; ++j) {
      if (std::memcmp(&base.arrays[i][j * width], &target.arrays[i][j * width], width) != 0)
        words[j / block / 64] |= std::uint64_t{1} << (j / block % 64);
    }
  }
  for (const auto& words : hinted.lists) hinted.hints.push_back({{}, words, block});
  for (const ChangedHint& hint : hinted.hints) hinted.pointers.push_back(&hint);
  return hinted;
}

const std::vector<ArraySpec> kScannedSpecs{{DataType::kBfloat16, 100000},
                                           {DataType::kBfloat16, 3},
                                           {DataType::kBfloat16, 50000},
                                           {DataType::kInt64, 3000}};

TEST(ChangedHints, GiveTheSameStreamAsComparingAll) {
  const State base = random_state(kScannedSpecs, 1);
  for (const double density : {0.0, 0.0005, 0.02, 1.0}) {
    const State target = changed_state(base, density, Change::kUlp, 2);
    const auto plain = encode(base, target).bytes;
    std::vector<Hinted> all;
    all.push_back(hint_indices(base, target));
    for (const std::uint64_t block : {1u, 7u, 4096u, 65536u, 1000000u})
      all.push_back(hint_blocks(base, target, block));
    for (Hinted& hinted : all) {
      EncodeOptions options;
      options.hints = hinted.pointers;
      EXPECT_TRUE(encode(base, target, options).bytes == plain) << density;
      hinted.pointers[2] = nullptr;  // one array unknown
      options.hints = hinted.pointers;
      EXPECT_TRUE(encode(base, target, options).bytes == plain) << density;
    }
  }
}

TEST(ChangedHints, ThatAreWrongAreRefused) {
  const State base = random_state({{DataType::kInt8, 1000}}, 3);
  const auto code_of = [&](const ChangedHint& hint) {
    const ChangedHint* pointer = &hint;
    EncodeOptions options;
    options.hints = {&pointer, 1};
    return encode(base, base, options).status.code();
  };
  const std::vector<std::uint64_t> past{5, 1000}, falls{7, 6}, twice{7, 7}, far_then_near{2000, 5},
      good{0, 999}, bits{1};
  EXPECT_EQ(code_of({past, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({falls, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({twice, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({far_then_near, {}, 0}), Code::kInvalidArgument);
  EXPECT_EQ(code_of({{}, {}, 10}), Code::kInvalidArgument) << "a bitmap that is too short";
  EXPECT_EQ(code_of({good, {}, 0}), Code::kSuccess);
  EXPECT_EQ(code_of({{}, bits, ~std::uint64_t{0}}), Code::kSuccess);
  EncodeOptions options;
  const std::vector<const ChangedHint*> two{nullptr, nullptr};
  options.hints = two;
  EXPECT_EQ(encode(base, base, options).status.code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace sparcl::codec
