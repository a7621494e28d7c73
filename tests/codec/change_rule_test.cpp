#include "src/codec/change_rule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "src/base/number.hpp"
#include "src/codec/change_cut.hpp"
#include "tests/codec/codec_support.hpp"

namespace sparcl::codec {
namespace {

// Two arrays of one type and one of another, changed by steps of several sizes; a NaN and a change
// of a zero's sign among them.
struct Fixture {
  State base;
  State target;

  explicit Fixture(double density = 0.05, std::uint64_t count = 150'000) {
    base = {{{DataType::kBfloat16, count}, {DataType::kBfloat16, 1000}, {DataType::kFloat32, 5000}},
            {}};
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal(0, 0.02);
    for (const ArraySpec& spec : base.specs) {
      Array& array = base.arrays.emplace_back(spec.count * element_bytes(spec.datatype));
      for (std::uint64_t i = 0; i < spec.count; ++i)
        store_number(spec.datatype, normal(random),
                     array.data() + i * element_bytes(spec.datatype));
    }
    target = base;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (std::size_t a = 0; a < base.specs.size(); ++a) {
      const auto& [type, elements] = base.specs[a];
      for (std::uint64_t i = 0; i < elements; ++i) {
        if (uniform(random) >= density) continue;
        std::byte* at = target.arrays[a].data() + i * element_bytes(type);
        store_number(
            type, load_number(type, at) + normal(random) * std::pow(10, -3 * uniform(random)), at);
      }
    }
    store_number(DataType::kFloat32, 0.0, base.arrays[2].data() + 40);
    store_number(DataType::kFloat32, -0.0, target.arrays[2].data() + 40);
    store_number(DataType::kFloat32, std::nan(""), target.arrays[2].data() + 80);
  }
};

struct Element {
  std::size_t array;
  std::uint64_t index;
  double size;  // of its change; infinity where a NaN is involved
};

std::vector<Element> all_changes(const State& base, const State& target) {
  std::vector<Element> found;
  for (std::size_t a = 0; a < base.specs.size(); ++a) {
    const DataType type = base.specs[a].datatype;
    const std::size_t width = element_bytes(type);
    for (std::uint64_t i = 0; i < base.specs[a].count; ++i) {
      const std::byte* before = base.arrays[a].data() + i * width;
      const std::byte* after = target.arrays[a].data() + i * width;
      if (std::memcmp(before, after, width) == 0) continue;
      const double size = std::fabs(load_number(type, after) - load_number(type, before));
      found.push_back({a, i, std::isnan(size) ? std::numeric_limits<double>::infinity() : size});
    }
  }
  return found;
}

template <class Kept>
State with_changes(const Fixture& given, Kept kept) {
  State state = given.base;
  for (const Element& element : all_changes(given.base, given.target)) {
    if (!kept(element)) continue;
    const std::size_t width = element_bytes(given.base.specs[element.array].datatype);
    std::memcpy(state.arrays[element.array].data() + element.index * width,
                given.target.arrays[element.array].data() + element.index * width, width);
  }
  return state;
}

void expect_sends(const Fixture& given, const ChangeRule& rule, const State& expected) {
  for (const bool hashed : {false, true}) {
    EncodeOptions options;
    options.rule = &rule;
    options.with_state_hash = hashed;
    const Encoded encoded = encode(given.base, given.target, options);
    ASSERT_TRUE(encoded.status.ok()) << encoded.status.message();
    State held = given.base;
    const Status status = decode(encoded.bytes, held, hashed ? Verify::kFull : Verify::kTouched);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(held.arrays == expected.arrays);
    EXPECT_EQ(encoded.stats.changed, all_changes(given.base, expected).size());
  }
}

TEST(ChangeRule, ThresholdSendsWhatIsLarger) {
  for (const double density : {0.05, 1.0}) {
    const Fixture given(density);
    for (const double threshold : {0.0, 1e-4, 1e-2, 1e9}) {
      expect_sends(given, ThresholdRule(threshold),
                   with_changes(given, [&](const Element& e) { return e.size > threshold; }));
    }
  }
}

TEST(ChangeRule, SubsetSendsOnlyItsArrays) {
  const Fixture given;
  expect_sends(given, SubsetRule({false, true, false}),
               with_changes(given, [](const Element& e) { return e.array == 1; }));
}

TEST(ChangeRule, GridSendsWhatShowsOnIt) {
  const Fixture given;
  for (const DataType grid : {DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2}) {
    const State expected = with_changes(given, [&](const Element& e) {
      const DataType type = given.base.specs[e.array].datatype;
      std::uint16_t places[2] = {};
      double values[2];
      for (int i = 0; i < 2; ++i) {
        const State& state = i == 0 ? given.base : given.target;
        values[i] = load_number(type, state.arrays[e.array].data() + e.index * element_bytes(type));
        store_number(grid, values[i], reinterpret_cast<std::byte*>(&places[i]));
      }
      return places[0] != places[1] && !(values[0] == 0 && values[1] == 0);
    });
    EXPECT_FALSE(expected.arrays == given.base.arrays);
    EXPECT_FALSE(expected.arrays == given.target.arrays);
    expect_sends(given, GridRule(grid), expected);
  }
}

TEST(ChangeRule, AnIntegerGridHasAStepAnArray) {
  const Fixture given;
  const BlockMap map = given.base.map();
  const std::vector<double> steps = grid_steps(map, given.base.read(), DataType::kInt8);
  double largest = 0;
  for (std::uint64_t i = 0; i < given.base.specs[1].count; ++i)
    largest = std::max(
        largest, std::fabs(load_number(DataType::kBfloat16, given.base.arrays[1].data() + 2 * i)));
  EXPECT_EQ(steps[1], largest / 127);
  const State expected = with_changes(given, [&](const Element& e) {
    const DataType type = given.base.specs[e.array].datatype;
    const std::size_t at = e.index * element_bytes(type);
    const double before =
        load_number(type, given.base.arrays[e.array].data() + at) / steps[e.array];
    const double after =
        load_number(type, given.target.arrays[e.array].data() + at) / steps[e.array];
    const auto held = [](double value) { return std::clamp(std::nearbyint(value), -128.0, 127.0); };
    return std::isnan(after) || held(before) != held(after);
  });
  expect_sends(given, GridRule(DataType::kInt8, steps), expected);
}

// All changes are to one value, so that a block would be small as a whole; the rule leaves the less
// than an eighth that is large.
TEST(ChangeRule, ABlockNeverTravelsWholeWithWhatTheRuleLeftOut) {
  for (const DataType type :
       {DataType::kFloat8e4m3, DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (const std::uint64_t elements : {16u, 100u, 1000u, 65536u}) {
      const std::size_t width = element_bytes(type);
      State base{{{type, elements}}, {Array(elements * width)}};
      State target = base;
      State expected = base;
      for (std::uint64_t i = 0; i < elements; ++i) {
        const bool is_kept = i % 9 == 4 && i % 16 != 0;
        store_number(type, is_kept ? 1.0 : 0.125, target.arrays[0].data() + i * width);
        if (is_kept) store_number(type, 1.0, expected.arrays[0].data() + i * width);
      }
      const ThresholdRule rule(0.5);
      EncodeOptions options;
      options.rule = &rule;
      options.fewest_bytes = true;
      options.with_state_hash = true;
      const Encoded encoded = encode(base, target, options);
      State held = base;
      ASSERT_TRUE(decode(encoded.bytes, held, Verify::kFull).ok()) << encoded.status.message();
      EXPECT_TRUE(held.arrays == expected.arrays) << info(type).name << " " << elements;
    }
  }
}

TEST(ChangeRule, EveryRuleOfSeveralMustHold) {
  const Fixture given;
  const ThresholdRule large(1e-3);
  const SubsetRule first({true, false, false});
  expect_sends(given, EveryRule({&large, &first}),
               with_changes(given, [](const Element& e) { return e.size > 1e-3 && e.array == 0; }));
}

TEST(ChangeCut, TakesTheKLargestExactly) {
  const Fixture given;
  std::vector<Element> changes = all_changes(given.base, given.target);
  std::stable_sort(changes.begin(), changes.end(),
                   [](const Element& a, const Element& b) { return a.size > b.size; });
  const BlockMap map = given.base.map();
  const auto base = given.base.read();
  const auto target = given.target.read();
  const EncodeOptions options;
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, changes.size() - 1,
                              changes.size(), changes.size() + 9}) {
    const Result<ChangeCut> cut =
        cut_to_count({map, base, target, options, kernels::cpu_kernels()}, k);
    ASSERT_TRUE(cut.ok());
    std::map<std::pair<std::size_t, std::uint64_t>, bool> largest;
    for (std::size_t i = 0; i < std::min(k, changes.size()); ++i)
      largest[{changes[i].array, changes[i].index}] = true;
    expect_sends(given, CutRule(*cut), with_changes(given, [&](const Element& e) {
                   return largest.contains({e.array, e.index});
                 }));
  }
}

TEST(ChangeCut, UsesTheBytesItMay) {
  const Fixture given;
  const BlockMap map = given.base.map();
  const auto base = given.base.read();
  const auto target = given.target.read();
  EncodeOptions options;
  options.with_state_hash = true;
  const std::uint64_t whole = encode(given.base, given.target, options).bytes.size();
  const double largest_left_out = [&] {
    const Result<ChangeCut> cut =
        cut_to_bytes({map, base, target, options, kernels::cpu_kernels()}, whole / 2);
    return cut.ok() ? std::bit_cast<double>(cut->key) * 17 / 16 : -1.0;
  }();
  for (const std::uint64_t budget :
       {std::uint64_t{400}, std::uint64_t{2000}, whole / 2, whole - 1, whole, 2 * whole}) {
    const Result<ChangeCut> cut =
        cut_to_bytes({map, base, target, options, kernels::cpu_kernels()}, budget);
    ASSERT_TRUE(cut.ok()) << cut.status().message();
    const CutRule rule(*cut);
    EncodeOptions ruled = options;
    ruled.rule = &rule;
    const Encoded encoded = encode(given.base, given.target, ruled);
    EXPECT_LE(encoded.bytes.size(), budget);
    EXPECT_GE(encoded.bytes.size() + 20, std::min(whole, budget - budget / 20));
    State held = given.base;
    ASSERT_TRUE(decode(encoded.bytes, held, Verify::kFull).ok());
    EXPECT_EQ(held.arrays == given.target.arrays, budget >= whole);
    if (budget != whole / 2) continue;
    for (const Element& left_out : all_changes(held, given.target))
      ASSERT_LE(left_out.size, largest_left_out);
  }
}

TEST(ChangeCut, ABudgetBelowAnEmptyUpdateIsRefused) {
  const Fixture given;
  const auto base = given.base.read();
  const auto target = given.target.read();
  const BlockMap map = given.base.map();
  const EncodeOptions options;
  const Result<ChangeCut> cut =
      cut_to_bytes({map, base, target, options, kernels::cpu_kernels()}, 20);
  EXPECT_EQ(cut.status().code(), Code::kInvalidArgument);
  EXPECT_NE(cut.status().message().find("20 bytes"), std::string::npos);
}

}  // namespace
}  // namespace sparcl::codec
