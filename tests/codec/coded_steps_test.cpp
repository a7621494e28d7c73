#include "src/codec/coded_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "src/codec/step_tokens.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/mode_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

TEST(StepTokens, SayWhichSizesTheyHold) {
  for (unsigned token = 0; token < kStepTokens; ++token) {
    const std::uint64_t least = min_of(token);
    const std::uint64_t most = least + ((std::uint64_t{1} << extra_bits_of(token)) - 1);
    for (const std::uint64_t size : {least, most}) {
      EXPECT_EQ(token_of(size).token, token) << size;
      EXPECT_EQ(token_of(size).extra_bits, extra_bits_of(token)) << size;
    }
    if (token > 0) {
      EXPECT_EQ(token_of(least - 1).token, token - 1);
    }
  }
  EXPECT_EQ(token_of(~std::uint64_t{0}).token, kStepTokens - 1);
}

constexpr DataType kTypes[] = {DataType::kInt8,   DataType::kFloat8e4m3, DataType::kFloat8e5m2,
                               DataType::kInt16,  DataType::kBfloat16,   DataType::kFloat16,
                               DataType::kInt32,  DataType::kFloat32,    DataType::kUint64,
                               DataType::kFloat64};

struct Changed {
  State base;
  State target;
  std::vector<std::uint16_t> positions;
  Array old_values;
  Array new_values;

  Changed(DataType type, std::uint32_t elements, double density, Change change, std::uint64_t seed)
      : base(random_state({{type, elements}}, seed)),
        target(changed_state(base, density, change, seed + 1)) {
    const std::size_t width = element_bytes(type);
    positions.resize(elements + kernels::kPositionSlack);
    old_values.resize(elements * width + kernels::kValueSlackBytes);
    new_values.resize(old_values.size());
    positions.resize(kernels::cpu_kernels().of(type).diff_values(
        base.arrays[0].data(), target.arrays[0].data(), elements, 0, positions.data(),
        old_values.data(), new_values.data()));
  }
  ChangeList list() const {
    return {positions.data(), old_values.data(), new_values.data(), positions.size()};
  }
};

TEST(CodedSteps, ComeBackFromEveryBody) {
  std::vector<const kernels::KernelSet*> sets{&kernels::reference_kernels()};
  for (const kernels::KernelSet& set : kernels::all_cpu_kernels()) sets.push_back(&set);
  for (const DataType type : kTypes) {
    for (const std::uint32_t elements : {1u, 31u, 33u, 5000u, 65536u}) {
      for (const double density : {0.01, 0.5, 1.0}) {
        const Changed made(type, elements, density,
                           elements % 2 == 0 ? Change::kUlp : Change::kRandom, elements);
        if (made.positions.empty()) continue;
        Array first;
        for (const kernels::KernelSet* set : sets) {
          CodedSteps coded;
          ASSERT_TRUE(coded.prepare(*set, {type, elements}, made.base.arrays[0].data(), made.list(),
                                    kCannot));
          Array bytes(coded.bytes());
          coded.write(bytes.data());
          if (first.empty()) first = bytes;
          ASSERT_TRUE(bytes == first) << set->name;
          bytes.resize(bytes.size() + kernels::kBitSlackBytes);

          DecodedBlock block;
          ASSERT_EQ(kCodedMode.decode({type, elements}, {bytes.data(), coded.bytes()}, *set, block),
                    nullptr);
          ASSERT_TRUE(
              kCodedMode.resolve({type, elements}, made.base.arrays[0].data(), *set, block));
          ASSERT_TRUE(std::ranges::equal(block.changed(), made.positions));
          State held = made.base;
          set->order_of(type).add_steps_at(held.arrays[0].data(), block.positions.data(),
                                           block.count, 0, block.values.data(), {});
          ASSERT_TRUE(held.arrays == made.target.arrays);
        }
      }
    }
  }
}

TEST(CodedSteps, FitNoOtherState) {
  // Small values change, large ones do not: what is held tells how to read the tokens.
  constexpr BlockShape kShape{DataType::kBfloat16, 20000};
  State base = random_state({{kShape.datatype, kShape.elements}}, 1);
  State target = base;
  std::vector<std::uint16_t> positions(kShape.elements + kernels::kPositionSlack);
  Array old_values(kShape.bytes() + kernels::kValueSlackBytes);
  Array new_values(old_values.size());
  for (std::size_t i = 0; i < kShape.elements; ++i) {
    const bool is_small = i % 3 == 0;
    base.arrays[0][2 * i + 1] = target.arrays[0][2 * i + 1] =
        is_small ? std::byte{0x3b} : std::byte{0x3f};
    if (is_small) target.arrays[0][2 * i] ^= std::byte{1};
  }
  const std::size_t count =
      kernels::cpu_kernels()
          .of(kShape.datatype)
          .diff_values(base.arrays[0].data(), target.arrays[0].data(), kShape.elements, 0,
                       positions.data(), old_values.data(), new_values.data());
  CodedSteps coded;
  ASSERT_TRUE(coded.prepare(kernels::cpu_kernels(), kShape, base.arrays[0].data(),
                            {positions.data(), old_values.data(), new_values.data(), count},
                            kCannot));
  EXPECT_LT(coded.bytes(), count / 8 + 300) << "all but the signs is known";
  Array bytes(coded.bytes());
  coded.write(bytes.data());
  bytes.resize(bytes.size() + kernels::kBitSlackBytes);
  DecodedBlock block;
  ASSERT_EQ(kCodedMode.decode(kShape, {bytes.data(), coded.bytes()}, kernels::cpu_kernels(), block),
            nullptr);
  EXPECT_TRUE(kCodedMode.resolve(kShape, base.arrays[0].data(), kernels::cpu_kernels(), block));
  EXPECT_TRUE(kCodedMode.resolve(kShape, target.arrays[0].data(), kernels::cpu_kernels(), block))
      << "of the same exponents";
  base.arrays[0][2 * 999 + 1] = std::byte{0x3f};
  EXPECT_FALSE(kCodedMode.resolve(kShape, base.arrays[0].data(), kernels::cpu_kernels(), block));
}

TEST(CodedStepsMutations, AreRefusedOrDoNotFitOrStayInsideTheBlock) {
  for (const DataType type : {DataType::kInt8, DataType::kBfloat16, DataType::kFloat64}) {
    expect_mutations_are_harmless(kCodedMode, type, test::by_tier(2000u, 200000u));
  }
}

TEST(PackedMutations, AreRefusedOrMakeABlock) {
  for (const BlockMode* mode : {&kPackedMode, &kPackedFreshMode}) {
    for (const DataType type : {DataType::kInt8, DataType::kBfloat16, DataType::kFloat64}) {
      expect_mutations_are_harmless(*mode, type, test::by_tier(2000u, 200000u));
    }
  }
}

}  // namespace
}  // namespace sparcl::codec
