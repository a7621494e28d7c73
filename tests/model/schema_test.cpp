#include "src/model/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/text.hpp"

namespace sparcl::model {
namespace {

using ::testing::HasSubstr;

Schema example_schema() {
  return {{"a.weight", DataType::kBfloat16, {3, 4}},
          {"a.bias", DataType::kFloat32, {}},
          {"empty", DataType::kInt64, {0, 7}}};
}

TEST(Schema, CountsElements) {
  EXPECT_EQ(*element_count({"scalar", DataType::kFloat32, {}}), 1u);
  EXPECT_EQ(*element_count({"matrix", DataType::kFloat32, {3, 5}}), 15u);
  EXPECT_EQ(*element_count({"empty", DataType::kFloat32, {3, 0}}), 0u);
}

TEST(Schema, CountsAreLimitedInBytes) {
  EXPECT_TRUE(element_count({"x", DataType::kUint8, {(1ull << 63) - 1}}).ok());
  EXPECT_FALSE(element_count({"x", DataType::kUint8, {1ull << 63}}).ok());
  EXPECT_TRUE(element_count({"x", DataType::kFloat64, {(1ull << 60) - 1}}).ok());
  EXPECT_FALSE(element_count({"x", DataType::kFloat64, {1ull << 60}}).ok());
  const Result<std::uint64_t> wrapped =
      element_count({"x", DataType::kUint8, {1ull << 32, 1ull << 32, 1ull << 32}});
  ASSERT_FALSE(wrapped.ok());
  EXPECT_THAT(wrapped.status().message(), HasSubstr("'x'"));
}

TEST(Schema, AZeroMakesAnyShapeEmpty) {
  EXPECT_EQ(*element_count({"x", DataType::kUint8, {~0ull, ~0ull, 0}}), 0u);
  EXPECT_EQ(*element_count({"x", DataType::kUint8, {0, ~0ull, ~0ull}}), 0u);
}

TEST(Schema, RoundTripsThroughBytes) {
  for (const Schema& schema : {Schema{}, example_schema()}) {
    const Result<Schema> parsed = parse_schema(serialise(schema));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, schema);
  }
}

TEST(Schema, HashSeesEachPart) {
  const Hash128 hash = schema_hash(example_schema());
  EXPECT_EQ(schema_hash(example_schema()), hash);
  Schema changed = example_schema();
  changed[0].name = "a.weighu";
  EXPECT_NE(schema_hash(changed), hash);
  changed = example_schema();
  changed[0].datatype = DataType::kFloat16;
  EXPECT_NE(schema_hash(changed), hash);
  changed = example_schema();
  changed[0].shape = {4, 3};
  EXPECT_NE(schema_hash(changed), hash);
  changed = example_schema();
  std::swap(changed[0], changed[1]);
  EXPECT_NE(schema_hash(changed), hash);
}

// Lengths keep neighbouring fields apart.
TEST(Schema, BytesAreUnambiguous) {
  const Schema one{{"ab", DataType::kUint8, {}}, {"c", DataType::kUint8, {}}};
  const Schema two{{"a", DataType::kUint8, {}}, {"bc", DataType::kUint8, {}}};
  EXPECT_NE(serialise(one), serialise(two));
  EXPECT_NE(serialise({{"a", DataType::kUint8, {1}}}),
            serialise({{"a", DataType::kUint8, {1, 1}}}));
}

TEST(Schema, RefusesEveryCut) {
  const std::vector<std::byte> bytes = serialise(example_schema());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse_schema(std::span(bytes).first(length)).ok()) << length;
  }
}

TEST(Schema, RefusesBytesAfterItsEnd) {
  std::vector<std::byte> bytes = serialise(example_schema());
  bytes.push_back(std::byte{0});
  EXPECT_EQ(parse_schema(bytes).status().code(), Code::kCorrupt);
}

TEST(Schema, RefusesAHugeCountWithoutAllocating) {
  const std::vector<std::byte> bytes{std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
                                     std::byte{0xff}, std::byte{0x7f}};
  EXPECT_EQ(parse_schema(bytes).status().code(), Code::kCorrupt);
}

// What is accepted is canonical: it serialises to the same bytes.
TEST(Schema, FlippedBitsAreRefusedOrCanonical) {
  const std::vector<std::byte> good = serialise(example_schema());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const Result<Schema> parsed = parse_schema(bytes);
    EXPECT_TRUE(!parsed.ok() || serialise(*parsed) == bytes) << bit;
  }
}

TEST(Schema, ValidatesNamesAndSizes) {
  EXPECT_TRUE(validate(example_schema()).ok());
  EXPECT_THAT(validate({{"x", DataType::kUint8, {}}, {"x", DataType::kInt8, {}}}).message(),
              HasSubstr("twice"));
  EXPECT_THAT(validate({{"\xff", DataType::kUint8, {}}}).message(), HasSubstr("UTF-8"));
  EXPECT_THAT(validate({{"", DataType::kUint8, {}}}).message(), HasSubstr("name is empty"));
  const std::uint64_t half = 1ull << 62;
  EXPECT_FALSE(validate({{"x", DataType::kUint8, {half}}, {"y", DataType::kUint8, {half}}}).ok());
  EXPECT_TRUE(
      validate({{"x", DataType::kUint8, {half}}, {"y", DataType::kUint8, {half - 1}}}).ok());
}

Schema sliced() {
  return {{"qkv", DataType::kBfloat16, {6, 4}, TensorSlice{{0, 0}, {1, 4}}},
          {"qkv", DataType::kBfloat16, {6, 4}, TensorSlice{{2, 0}, {1, 4}}},
          {"columns", DataType::kFloat32, {300, 1000}, TensorSlice{{0, 500}, {300, 500}}},
          {"bias", DataType::kFloat32, {7}},
          {"none", DataType::kInt8, {5, 5}, TensorSlice{{5, 0}, {0, 5}}}};
}

TEST(Schema, SlicesHaveTheirOwnBytesAndOthersTheirOldOnes) {
  const Result<Schema> parsed = parse_schema(serialise(sliced()));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(*parsed, sliced());
  EXPECT_EQ(*element_count(sliced()[2]), 150'000U);
  EXPECT_EQ(*element_count(sliced()[4]), 0U);
  EXPECT_EQ(to_hex(schema_hash(example_schema())),
            "30eca6ad198176ec1d3412a90cd46558");  // as before there were slices
  Schema changed = sliced();
  changed[2].slice->begin[1] = 400;
  EXPECT_NE(schema_hash(changed), schema_hash(sliced()));
  changed = sliced();
  changed[2].slice.reset();
  EXPECT_NE(schema_hash(changed), schema_hash(sliced()));
}

TEST(Schema, SlicesLieInsideTheirTensors) {
  const auto says = [](std::vector<std::uint64_t> shape, TensorSlice slice) {
    return std::string(
        validate({{"x", DataType::kFloat32, std::move(shape), std::move(slice)}}).message());
  };
  EXPECT_EQ(says({4, 4}, {{0, 2}, {4, 2}}), "");
  EXPECT_EQ(says({4, 4}, {{4, 4}, {0, 0}}), "");
  EXPECT_THAT(says({4, 4}, {{0, 2}, {4, 3}}), HasSubstr("does not lie inside [4, 4]"));
  EXPECT_THAT(says({4, 4}, {{5, 0}, {0, 4}}), HasSubstr("does not lie inside"));
  EXPECT_THAT(says({4, 4}, {{0, ~0ull}, {4, 2}}),
              HasSubstr("does not lie inside"));  // the sum wraps
  EXPECT_THAT(says({4, 4}, {{0, 2}, {4, ~0ull}}), HasSubstr("does not lie inside"));
  EXPECT_THAT(says({4, 4}, {{0}, {4}}), HasSubstr("does not lie inside"));
  EXPECT_THAT(says({4}, {{0, 0}, {4, 1}}), HasSubstr("does not lie inside"));
  EXPECT_THAT(says({1ull << 40, 1ull << 40}, {{0, 0}, {1, 1}}), HasSubstr("passes 2^63"));
}

TEST(Schema, ATensorIsThereWholeOrInDifferentSlices) {
  const TensorSchema whole{"x", DataType::kFloat32, {4}},
      low{"x", DataType::kFloat32, {4}, TensorSlice{{0}, {2}}};
  TensorSchema other = low;
  EXPECT_THAT(validate({whole, low}).message(), HasSubstr("whole and as a slice"));
  EXPECT_THAT(validate({low, whole}).message(), HasSubstr("whole and as a slice"));
  EXPECT_THAT(validate({low, {"y", DataType::kFloat32, {4}}, other}).message(), HasSubstr("twice"));
  other.slice->begin[0] = 1;
  EXPECT_TRUE(validate({low, other}).ok());  // they overlap
  other.shape[0] = 5;
  EXPECT_THAT(validate({low, other}).message(), HasSubstr("different tensors"));
}

TEST(Schema, RefusesEveryCutAndFlippedBitOfSlices) {
  const std::vector<std::byte> good = serialise(sliced());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(parse_schema(std::span(good).first(length)).ok()) << length;
  }
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const Result<Schema> parsed = parse_schema(bytes);
    EXPECT_TRUE(!parsed.ok() || (serialise(*parsed) == bytes && validate(*parsed).ok())) << bit;
  }
}

TEST(Text, KnowsUtf8) {
  for (const char* good : {"", "plain", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
                           "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << in_quotes(good);
  }
  for (const char* bad :
       {"\x80", "\xc3", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xff"}) {
    EXPECT_FALSE(is_utf8(bad)) << in_quotes(bad);
  }
}

TEST(Text, QuotesAreSafeOnATerminal) {
  EXPECT_EQ(in_quotes("a.b"), "'a.b'");
  EXPECT_EQ(in_quotes("\x1b[2Jx\n"), "'\\x1b[2Jx\\x0a'");
  EXPECT_EQ(in_quotes("\xc2\x9b"
                      "1m"),
            "'\\xc2\\x9b1m'");  // the one-character form of ESC [
  EXPECT_LT(in_quotes(std::string(100000, 'x')).size(), 200u);
}

}  // namespace
}  // namespace sparcl::model
