// Mode added and the choice of its codes: what receivers hold is what the definition says, on every
// machine and in every thread.

#include "src/codec/lossy_values.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "src/base/number.hpp"
#include "src/codec/change_cut.hpp"
#include "src/codec/update_reader.hpp"
#include "tests/codec/mode_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::codec {
namespace {

constexpr DataType kFloats[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                                DataType::kFloat64};
constexpr Values kLossy[] = {Values::kInt8, Values::kFloat8};

double number(const State& state, std::size_t array, std::uint64_t i) {
  const DataType type = state.specs[array].datatype;
  return load_number(type, state.arrays[array].data() + i * element_bytes(type));
}

void set_number(State& state, std::size_t array, std::uint64_t i, double value) {
  const DataType type = state.specs[array].datatype;
  store_number(type, value, state.arrays[array].data() + i * element_bytes(type));
}

// Weights around 0.02 and a change of some of them by noise of about 0.001.
struct Step {
  State base;
  State target;

  Step(std::vector<ArraySpec> specs, double density, std::uint64_t seed = 1)
      : base{std::move(specs), {}} {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, 1);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (std::size_t a = 0; a < base.specs.size(); ++a) {
      base.arrays.emplace_back(base.specs[a].count * element_bytes(base.specs[a].datatype));
      for (std::uint64_t i = 0; i < base.specs[a].count; ++i)
        set_number(base, a, i, 0.02 * normal(random));
    }
    target = base;
    for (std::size_t a = 0; a < base.specs.size(); ++a) {
      for (std::uint64_t i = 0; i < base.specs[a].count; ++i) {
        if (uniform(random) < density)
          set_number(target, a, i, number(base, a, i) + 0.001 * normal(random));
      }
    }
  }
};

EncodeOptions lossy(Values values, Rounding rounding = Rounding::kNearest, std::uint64_t seed = 0) {
  EncodeOptions options;
  options.values = {values, rounding, seed};
  options.with_state_hash = true;
  return options;
}

// What a receiver of the update holds.
State received(const State& base, const Encoded& encoded, Verify verify = Verify::kFull,
               Writing writing = Writing::kStaged) {
  EXPECT_TRUE(encoded.status.ok()) << encoded.status.message();
  State held = base;
  const Status status = decode_writing(encoded.bytes, held, writing, verify);
  EXPECT_TRUE(status.ok()) << status.message();
  return held;
}

TEST(ScaledCodes, AreSumsRoundedOnce) {
  std::mt19937_64 random(3);
  const std::size_t count = test::by_tier(20'000u, 2'000'000u);
  for (const DataType type : kFloats) {
    for (const CodeKind kind : {CodeKind::kInt8, CodeKind::kFloat8}) {
      const std::size_t width = element_bytes(type);
      std::vector<std::byte> olds(count * width + 1);  // from the second byte on: not aligned
      for (std::byte& byte : olds) byte = static_cast<std::byte>(random());
      std::vector<std::byte> codes(count);
      for (std::byte& code : codes) {
        const int size = 1 + static_cast<int>(random() % static_cast<unsigned>(top_code(kind)));
        code = static_cast<std::byte>(random() % 2 == 0 ? size : -size);
      }
      for (int trial = 0; trial < 60; ++trial) {
        // Scales as large as the values, in the range of the type and outside.
        const double value = load_number(type, olds.data() + 1 + random() % count * width);
        const auto near =
            static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(std::fabs(value)) >> 32);
        const Scale scale{trial % 3 == 0
                              ? near + static_cast<std::uint32_t>(random() % 64 - 48) * (1U << 20)
                              : near - static_cast<std::uint32_t>(random() % 12) * (1U << 20)};
        if (!scale.valid()) continue;
        std::vector<std::byte> news(count * width + 1);
        add_codes(type, kind, scale, olds.data() + 1, codes.data(), count, news.data() + 1);
        for (std::size_t i = 0; i < count; i += 1 + random() % 40) {
          const std::byte* old_at = olds.data() + 1 + i * width;
          const double old_value = load_number(type, old_at);
          const auto code = static_cast<std::int8_t>(codes[i]);
          const double units = units_of(kind, static_cast<unsigned>(std::abs(code)));
          std::byte expected[8];
          store_number(type, old_value + scale.value() * (code < 0 ? -units : units), expected);
          if (!std::isfinite(old_value)) std::memcpy(expected, old_at, width);
          ASSERT_EQ(std::memcmp(news.data() + 1 + i * width, expected, width), 0)
              << info(type).name << " " << old_value << " + " << scale.value() << " * " << int{code}
              << " -> " << load_number(type, news.data() + 1 + i * width) << ", not "
              << load_number(type, expected);
        }
      }
    }
  }
}

TEST(ScaledCodes, OfFloat8AreTheNumbersOfE4m3) {
  for (unsigned size = 1; size <= 126; ++size) {
    const auto bits = static_cast<std::byte>(127 - size);
    EXPECT_EQ(units_of(CodeKind::kFloat8, size) * 0x1p-9,
              load_number(DataType::kFloat8e4m3, &bits));
  }
}

TEST(LossyValues, AreNearTheTargetForEveryTypeAndDensity) {
  for (const DataType type : kFloats) {
    for (const Values values : kLossy) {
      for (const double density : {0.0, 0.00002, 0.01, 0.3, 1.0}) {
        for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
          const Step step({{type, 70'000}, {type, 3}, {type, 1}, {type, 0}}, density);
          const Encoded encoded = encode(step.base, step.target, lossy(values, rounding, 5));
          const State held = received(step.base, encoded);
          double largest = 0;
          for (std::size_t a = 0; a < 3; ++a) {
            for (std::uint64_t i = 0; i < step.base.specs[a].count; ++i)
              largest =
                  std::max(largest, std::fabs(number(step.target, a, i) - number(step.base, a, i)));
          }
          const double scale = largest / 127 * (1 + 0x1p-19);
          double worst = 0;
          for (std::size_t a = 0; a < 3; ++a) {
            for (std::uint64_t i = 0; i < step.base.specs[a].count; ++i) {
              const double target = number(step.target, a, i);
              const double delta = std::fabs(target - number(step.base, a, i));
              const double spacing = values == Values::kInt8 ? scale : delta / 8 + scale;
              // Half a unit in the last place, of a number that may lie in the next binade.
              const double ulp =
                  std::fabs(target) * std::pow(2, -(type == DataType::kBfloat16  ? 7
                                                    : type == DataType::kFloat16 ? 10
                                                                                 : 20));
              const double bound =
                  spacing * (rounding == Rounding::kNearest ? 0.5 : 1) * (1 + 1e-9) + ulp + 0x1p-24;
              const double error = std::fabs(target - number(held, a, i));
              ASSERT_LE(error, bound)
                  << info(type).name << " density " << density << " element " << i;
              worst = std::max(worst, error);
            }
          }
          EXPECT_EQ(encoded.stats.lossy.largest, worst);
          EXPECT_EQ(
              decode_writing(encoded.bytes, *std::make_unique<State>(held), Writing::kStaged).ok(),
              true);
        }
      }
    }
  }
}

TEST(LossyValues, AreAcceptedAgainAndRefusedByAnotherBase) {
  for (const Values values : kLossy) {
    const Step step({{DataType::kFloat32, 100'000}, {DataType::kBfloat16, 5000}}, 0.02);
    const Encoded encoded = encode(step.base, step.target, lossy(values));
    const State expected = received(step.base, encoded);
    for (const Verify verify : {Verify::kTouched, Verify::kFull}) {
      for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
        EXPECT_TRUE(received(step.base, encoded, verify, writing).arrays == expected.arrays);
        EXPECT_TRUE(received(expected, encoded, verify, writing).arrays == expected.arrays)
            << "held already";
        State held = step.target;
        EXPECT_EQ(decode_writing(encoded.bytes, held, writing, verify).code(), Code::kWrongBase);
        EXPECT_TRUE(held.arrays == step.target.arrays);
      }
    }
    EXPECT_TRUE(received(step.base, encoded, Verify::kOff).arrays == expected.arrays);
    EXPECT_TRUE(received(step.base, encoded, Verify::kOff, Writing::kEarly).arrays ==
                expected.arrays);
  }
}

TEST(LossyValues, CostAFractionOfExactOnes) {
  const Step step({{DataType::kFloat32, 1 << 20}}, 0.01);
  const Encoded exact = encode(step.base, step.target);
  for (const Values values : kLossy) {
    EncodeOptions options = lossy(values);
    options.with_state_hash = false;
    const Encoded encoded = encode(step.base, step.target, options);
    EXPECT_LT(3 * encoded.bytes.size(), 2 * exact.bytes.size());
    EXPECT_LT(8 * encoded.bytes.size(),
              encoded.stats.changed * 17);  // eight bits of position and sign at one in a hundred
  }
}

// Also of several arrays and where so much changes that a mode may take whole blocks; and where a
// rule chooses.
TEST(LossyValues, BringTheSendersBaseToWhatReceiversHold) {
  const ThresholdRule threshold(0.0002);
  const ChangeRule* const kRules[] = {nullptr, &threshold};
  for (const double density : {0.05, 0.6}) {
    for (const Values values : {Values::kExact, Values::kInt8, Values::kFloat8}) {
      for (const ChangeRule* rule : kRules) {
        const Step step(
            {{DataType::kFloat16, 100'000}, {DataType::kFloat32, 70'000}, {DataType::kFloat32, 3}},
            density);
        State forward = step.base;
        const auto writable = forward.write();
        EncodeOptions options = lossy(values, Rounding::kStochastic, 9);
        options.bring_forward = writable;
        options.rule = rule;
        const BlockMap map = forward.map();
        const auto target = step.target.read();
        const auto base = forward.read();
        UpdateEncoder encoder(map, base, target, options, kernels::cpu_kernels());
        VectorSink sink;
        while (!encoder.finished()) ASSERT_TRUE(encoder.step(1, sink).ok());
        encoder.keep_forward();
        State held = step.base;
        ASSERT_TRUE(decode(sink.bytes(), held, Verify::kFull).ok());
        EXPECT_TRUE(held.arrays == forward.arrays) << density;
        EXPECT_EQ(encoder.stats().target_hash, state_hash(map, forward.read(), {}));
      }
    }
  }
}

TEST(LossyValues, LoseNothingThatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DataType type : kFloats) {
    for (const Values values : kLossy) {
      for (const double odd : {std::nan(""), kInfinity, -kInfinity}) {
        for (const bool was_odd : {false, true}) {
          Step step({{type, 150'000}}, 0.01);
          set_number(was_odd ? step.base : step.target, 0, 70'000, odd);
          if (was_odd) set_number(step.target, 0, 70'000, 1);
          const State held = received(step.base, encode(step.base, step.target, lossy(values)));
          const std::size_t width = element_bytes(type);
          const auto block_bytes = static_cast<std::ptrdiff_t>(kBlockElements * width);
          const auto begin = [&](const State& state) {
            return state.arrays[0].begin() + block_bytes;
          };
          EXPECT_TRUE(std::equal(begin(held), begin(held) + block_bytes, begin(step.target)))
              << "its block is exact";
          EXPECT_FALSE(held.arrays == step.target.arrays) << "and others are not";
        }
      }
    }
  }
}

TEST(LossyValues, ReachTheEndsOfEachType) {
  const std::pair<DataType, double> largest[] = {
      {DataType::kFloat16, 65504},
      {DataType::kBfloat16, 0x1.fep127},
      {DataType::kFloat32, std::numeric_limits<float>::max()},
      {DataType::kFloat64, std::numeric_limits<double>::max()}};
  for (const auto& [type, top] : largest) {
    for (const Values values : kLossy) {
      // From zero to the top and back, across all of the range, between denormals.
      for (const auto& [from, to] : {std::pair{0.0, top},
                                     {top, 0.0},
                                     {-top, top},
                                     {top * 0.999, top},
                                     {5e-324, 1.5e-323},
                                     {1e-7, 3e-7}}) {
        State base = random_state({{type, 10}}, 1);
        for (std::uint64_t i = 0; i < 10; ++i) set_number(base, 0, i, 0.5);
        set_number(base, 0, 4, from);
        State target = base;
        set_number(target, 0, 4, to);
        for (int turn = 0; turn < 20 && base.arrays != target.arrays; ++turn)
          base = received(base, encode(base, target, lossy(values)));
        EXPECT_TRUE(base.arrays == target.arrays)
            << info(type).name << " " << from << " " << to << " " << number(base, 0, 4);
      }
    }
  }
}

TEST(LossyValues, TakeZerosOfBothSignsForOne) {
  State base = random_state({{DataType::kFloat32, 100}}, 1);
  for (std::uint64_t i = 0; i < 100; ++i) set_number(base, 0, i, 0.0);
  State target = base;
  set_number(target, 0, 3, -0.0);
  EXPECT_EQ(encode(base, target, lossy(Values::kInt8)).stats.changed, 0u);
  set_number(target, 0, 4, 1.0);
  const State held = received(base, encode(base, target, lossy(Values::kInt8)));
  EXPECT_FALSE(std::signbit(number(held, 0, 3)));
  EXPECT_NEAR(number(held, 0, 4), 1.0, 0x1p-19);  // the scale has 20 bits
}

TEST(LossyValues, LeaveOtherTypesExact) {
  std::vector<ArraySpec> specs;
  for (const DataType type : {DataType::kInt8, DataType::kInt64, DataType::kBool,
                              DataType::kFloat8e4m3, DataType::kFloat8e5m2, DataType::kUint16})
    specs.push_back({type, 5000});
  const State base = random_state(specs, 4);
  const State target = changed_state(base, 0.1, Change::kRandom, 5);
  for (const Values values : kLossy) {
    const Encoded encoded = encode(base, target, lossy(values));
    EXPECT_TRUE(received(base, encoded).arrays == target.arrays);
    EXPECT_EQ(encoded.stats.lossy.largest, 0);
  }
}

TEST(LossyValues, AreAFunctionOfSeedAndVersion) {
  const Step step({{DataType::kFloat32, 150'000}, {DataType::kBfloat16, 70'000}}, 0.05);
  const auto bytes = [&](std::uint64_t seed, std::uint64_t version,
                         const kernels::KernelSet& kernels, std::uint64_t budget) {
    EncodeOptions options = lossy(Values::kInt8, Rounding::kStochastic, seed);
    options.target_version = version;
    return encode(step.base, step.target, options, kernels, budget).bytes;
  };
  const auto expected = bytes(1, 1, kernels::reference_kernels(), 1);
  for (const kernels::KernelSet& kernels : kernels::all_cpu_kernels())
    EXPECT_TRUE(bytes(1, 1, kernels, 1 << 30) == expected);
  EXPECT_FALSE(bytes(2, 1, kernels::cpu_kernels(), 1) == expected);
  EncodeOptions other = lossy(Values::kInt8, Rounding::kStochastic, 1);
  other.target_version = 2;
  const State first = received(
      step.base, encode(step.base, step.target, lossy(Values::kInt8, Rounding::kStochastic, 1)));
  EXPECT_FALSE(received(step.base, encode(step.base, step.target, other)).arrays == first.arrays)
      << "each version is rounded anew";
}

// Runs `work` with a thread's settings of arithmetic turned into what programs turn them into.
template <class Work>
auto in_odd_arithmetic(Work work) {
#if defined(__x86_64__)
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040 | 0x4000);  // denormals are zero, and what is rounded is rounded up
  auto result = work();
  _mm_setcsr(saved);
#else
  std::fesetround(FE_UPWARD);
  auto result = work();
  std::fesetround(FE_TONEAREST);
#endif
  return result;
}

TEST(LossyValues, DoNotDependOnTheThreadsArithmetic) {
  Step step({{DataType::kFloat32, 3000}, {DataType::kFloat16, 3000}}, 0.3);
  for (std::uint64_t i = 0; i < 300; ++i) {
    set_number(step.base, 0, i, 1e-40 * static_cast<double>(i));
    set_number(step.target, 0, i, 1.5e-40 * static_cast<double>(i));
  }
  State tiny = step.base;
  for (std::uint64_t i = 300; i < 3000; ++i) set_number(tiny, 0, i, number(step.target, 0, i));
  for (const Values values : kLossy) {
    for (const State& base : {step.base, tiny}) {
      const EncodeOptions options = lossy(values, Rounding::kStochastic, 3);
      const Encoded plain = encode(base, step.target, options);
      const Encoded odd = in_odd_arithmetic([&] { return encode(base, step.target, options); });
      EXPECT_TRUE(plain.bytes == odd.bytes);
      const State held = received(base, plain);
      EXPECT_TRUE(in_odd_arithmetic([&] { return received(base, plain); }).arrays == held.arrays);
    }
  }
}

TEST(LossyValues, RoundedByChanceAreRightOnTheAverage) {
  for (const Values values : kLossy) {
    // One large change sets the scale; the others are far smaller than half a unit: rounded to
    // nearest none of them would ever move.
    State base = random_state({{DataType::kFloat32, 60'000}}, 1);
    for (std::uint64_t i = 0; i < 60'000; ++i) set_number(base, 0, i, 0);
    State target = base;
    const double step = values == Values::kInt8 ? 0.3 / 127 : 0.3 / kTopFloat8Units;
    for (std::uint64_t i = 0; i < 60'000; ++i)
      set_number(target, 0, i, i == 0 ? 1.0 : i % 2 == 0 ? step : -step);
    const State held =
        received(base, encode(base, target, lossy(values, Rounding::kStochastic, 12)));
    double even = 0;
    double odd = 0;
    for (std::uint64_t i = 1; i < 60'000; ++i)
      (i % 2 == 0 ? even : odd) += number(held, 0, i) / step;
    // 30,000 draws of 0.3: a standard deviation of 0.9 % of the sum.
    EXPECT_NEAR(even, 30'000, 1500);
    EXPECT_NEAR(odd, -30'000, 1500);
    EXPECT_EQ(encode(base, target, lossy(values)).stats.changed, 1u);
  }
}

TEST(LossyValues, SentAgainAndAgainReachTheTarget) {
  for (const DataType type : kFloats) {
    for (const Values values : kLossy) {
      Step step({{type, 20'000}}, 0.2);
      int turns = 0;
      for (std::uint64_t sent = 1; sent > 0 && turns < 40; ++turns) {
        const Encoded encoded = encode(step.base, step.target, lossy(values));
        sent = encoded.stats.changed;
        step.base = received(step.base, encoded);
      }
      EXPECT_TRUE(step.base.arrays == step.target.arrays) << info(type).name;
      EXPECT_LT(turns, 20) << info(type).name;
    }
  }
}

TEST(LossyValues, GoWithRules) {
  const Step step({{DataType::kFloat32, 200'000}}, 0.1);
  const auto base = step.base.read();
  const auto target = step.target.read();
  const BlockMap map = step.base.map();
  EncodeOptions options = lossy(Values::kInt8);
  const ThresholdRule threshold(0.002);
  options.rule = &threshold;
  const Encoded above = encode(step.base, step.target, options);
  EXPECT_GT(above.stats.changed, 300u);
  EXPECT_LT(above.stats.changed, 3000u);
  options.rule = nullptr;
  const Result<ChangeCut> largest =
      cut_to_count({map, base, target, options, kernels::cpu_kernels()}, 500);
  ASSERT_TRUE(largest.ok());
  const CutRule of_largest(*largest);
  options.rule = &of_largest;
  EXPECT_EQ(encode(step.base, step.target, options).stats.changed, 500u);
  options.rule = nullptr;
  const Result<ChangeCut> cut =
      cut_to_bytes({map, base, target, options, kernels::cpu_kernels()}, 8000);
  ASSERT_TRUE(cut.ok());
  const CutRule in_budget(*cut);
  options.rule = &in_budget;
  const Encoded fits = encode(step.base, step.target, options);
  EXPECT_LE(fits.bytes.size(), 8000u);
  EXPECT_GT(fits.bytes.size(), 7500u);
  EXPECT_GT(fits.stats.changed, 3500u) << "of codes, not of exact values";
}

TEST(LossyValues, OfClustersListThemOnTwoLevels) {
  State base = random_state({{DataType::kFloat32, 65536}}, 1);
  for (std::uint64_t i = 0; i < 65536; ++i) set_number(base, 0, i, 1);
  State target = base;
  for (std::uint64_t i = 4096; i < 4608; ++i)
    set_number(target, 0, i, 1 + 1e-3 * static_cast<double>(i % 100));
  const Encoded encoded = encode(base, target, lossy(Values::kInt8));
  EXPECT_LT(encoded.bytes.size(), 512u + 250u) << "positions cost next to nothing";
  received(base, encoded);
}

TEST(LossyValues, CannotBeReadWithoutTheBase) {
  const Step step({{DataType::kFloat32, 70'000}}, 0.05);
  const Encoded encoded = encode(step.base, step.target, lossy(Values::kInt8));
  const Staging& staging = staged(encoded.bytes);
  Result<UpdateReader> reader = UpdateReader::open(staging, encoded.bytes.size());
  ASSERT_TRUE(reader.ok());
  DecodedBlock block;
  const Status status = reader->decode(reader->blocks()[0], 0, {DataType::kFloat32, 65536},
                                       kernels::cpu_kernels(), block);
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(status.message(), testing::HasSubstr("mode added"));
}

TEST(AddedMode, RefusesDamage) {
  for (const DataType type : kFloats)
    expect_mutations_are_harmless(kAddedMode, type, test::by_tier(3000u, 200'000u));
}

}  // namespace
}  // namespace sparcl::codec
