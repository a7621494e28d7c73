#include "src/model/layout_change.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/tier.hpp"

namespace sparcl::model {
namespace {

using ::testing::HasSubstr;

constexpr Hash128 kBaseHash{1, 2};

Schema two_tensors() { return {{"a", DataType::kBfloat16, {3, 4}}, {"b", DataType::kFloat32, {}}}; }

Layout sharded(const Metadata& metadata) {
  Layout layout;
  layout.is_folder = true;
  layout.files = {{"1.safetensors", render_header({two_tensors()[0]}, metadata)},
                  {"2.safetensors", render_header({two_tensors()[1]}, {})}};
  layout.index_name = "model.safetensors.index.json";
  layout.index = R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})";
  return layout;
}

LayoutChange carried(const Layout& base, const Layout& target) {
  const Result<LayoutChange> change = compare_layouts(base, target, kBaseHash);
  EXPECT_TRUE(change.ok()) << change.status().message();
  const Result<LayoutChange> parsed = parse_layout_change(serialise(*change));
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  return *parsed;
}

void expect_exact(const Layout& base, const Layout& target) {
  const Result<ChangedLayout> out = apply_layout_change(carried(base, target), base);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->exact);
  EXPECT_EQ(out->layout, target);
}

TEST(LayoutChange, BringsTheTargetsLayoutByteForByte) {
  const Layout one = single_file_layout(two_tensors(), {{"step", "5"}, {"format", "pt"}});
  const Layout two = single_file_layout(two_tensors(), {{"step", "16"}, {"format", "pt"}});
  Layout styled = two;
  styled.files[0].header =
      R"({"b": {"dtype": "F32", "shape": [], "data_offsets": [24, 28]}, "a": {"dtype": "BF16", "shape": [3, 4], "data_offsets": [0, 24]}} )";
  Schema more = two_tensors();
  more.push_back({"c", DataType::kInt8, {5}});
  const Layout grown = single_file_layout(more, {});
  const std::vector<Layout> all{one, two, styled, grown, sharded({}), sharded({{"k", "v"}})};
  for (const Layout& base : all) {
    for (const Layout& target : all) expect_exact(base, target);
  }
}

TEST(LayoutChange, IsSmallWhereOnlyAValueChanges) {
  const Layout base = single_file_layout(two_tensors(), {{"step", "5"}, {"format", "pt"}});
  const Layout target = single_file_layout(two_tensors(), {{"step", "6"}, {"format", "pt"}});
  EXPECT_LE(serialise(*compare_layouts(base, target, kBaseHash)).size(), 40u);
}

// One more digit: the spaces that pad the header are others, too.
TEST(LayoutChange, IsSmallWhereThePaddingChanges) {
  const Layout base = single_file_layout(two_tensors(), {{"step", "99"}, {"format", "pt"}});
  const Layout target = single_file_layout(two_tensors(), {{"step", "100"}, {"format", "pt"}});
  ASSERT_NE(base.files[0].header.size() - base.files[0].header.find_last_not_of(' '),
            target.files[0].header.size() - target.files[0].header.find_last_not_of(' '));
  EXPECT_LE(serialise(*compare_layouts(base, target, kBaseHash)).size(), 40u);
}

TEST(LayoutChange, KeepsAnyPadding) {
  for (const std::size_t spaces : {0, 1, 255, 256, 257, 100000}) {
    Layout base = single_file_layout(two_tensors(), {});
    Layout target = base;
    target.files[0].header.append(spaces, ' ');
    expect_exact(base, target);
    expect_exact(target, base);
  }
}

TEST(LayoutChange, CarriesTheBaseHashOnlyWithAnotherSchema) {
  const Layout base = single_file_layout(two_tensors(), {});
  EXPECT_FALSE(
      carried(base, single_file_layout(two_tensors(), {{"k", "v"}})).base_hash.has_value());
  EXPECT_EQ(carried(base, single_file_layout({}, {})).base_hash, kBaseHash);
}

// The same tensors in a file that another program wrote: metadata are edited, the rest stays that
// program's.
TEST(LayoutChange, EditsTheMetadataOfAForeignHeader) {
  const Layout base =
      single_file_layout(two_tensors(), {{"step", "5"}, {"gone", "x"}, {"format", "pt"}});
  const Layout target =
      single_file_layout(two_tensors(), {{"step", "6"}, {"format", "pt"}, {"new", "y"}});
  const Layout foreign =
      single_file_layout(two_tensors(), {{"by", "another"}, {"gone", "x"}, {"step", "5"}});
  const Result<ChangedLayout> out = apply_layout_change(carried(base, target), foreign);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_FALSE(out->exact);
  const Result<Header> header = parse_header(out->layout.files[0].header);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->tensors, two_tensors());
  EXPECT_EQ(header->metadata, (Metadata{{"by", "another"}, {"step", "6"}, {"new", "y"}}));
}

TEST(LayoutChange, RefusesAForeignHeaderWhereTensorsMove) {
  const Layout base = single_file_layout(two_tensors(), {});
  const Layout target = single_file_layout({two_tensors()[0]}, {});
  const Status status =
      apply_layout_change(carried(base, target), single_file_layout(two_tensors(), {{"k", "v"}}))
          .status();
  EXPECT_EQ(status.code(), Code::kWrongBase);
  EXPECT_THAT(status.message(), HasSubstr("has another header"));
}

TEST(LayoutChange, RefusesEveryCutAndExtension) {
  std::vector<std::byte> bytes =
      serialise(*compare_layouts(sharded({}), sharded({{"k", "v"}}), kBaseHash));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(parse_layout_change(std::span(bytes).first(length)).status().code(), Code::kCorrupt)
        << length;
  }
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(parse_layout_change(bytes).ok());
}

TEST(LayoutChange, RefusesNamesThatLeaveTheFolder) {
  const Layout base = sharded({});
  LayoutChange change = carried(base, sharded({{"k", "v"}}));
  change.files[0].name = "../1.safetensors";
  EXPECT_THAT(apply_layout_change(change, base).status().message(),
              HasSubstr("no plain file name"));
  change.files[0].name = "9.safetensors";
  EXPECT_THAT(apply_layout_change(change, base).status().message(),
              HasSubstr("order of their names"));
}

TEST(LayoutChange, RefusesPatchesBeyondTheBase) {
  const Layout base = sharded({});
  LayoutChange change = carried(base, sharded({{"k", "v"}}));
  change.files[0].header.first = ~0ull;
  EXPECT_EQ(apply_layout_change(change, base).status().code(), Code::kCorrupt);
}

// Whatever comes out can be written and read.
TEST(LayoutChange, MutationsAreRefusedOrValid) {
  const std::vector<Layout> layouts{sharded({{"k", "v"}}), sharded({{"k", "w"}}),
                                    single_file_layout(two_tensors(), {{"a", "b"}})};
  const int count = test::by_tier(20'000, 1'000'000);
  int refused = 0;
  for (int seed = 0; seed < count; ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const Layout& base = layouts[random() % layouts.size()];
    std::vector<std::byte> bytes =
        serialise(*compare_layouts(base, layouts[random() % layouts.size()], kBaseHash));
    for (std::uint64_t i = 0; i <= random() % 3; ++i) {
      // Not the digest: an attachment that is hostile knows it.
      const std::size_t at = random() % bytes.size();
      if (at < 2 || at >= 10) bytes[at] = static_cast<std::byte>(random());
    }
    const Result<LayoutChange> change = parse_layout_change(bytes);
    const Result<ChangedLayout> out =
        change.ok() ? apply_layout_change(*change, base) : change.status();
    refused += !out.ok();
    ASSERT_TRUE(!out.ok() || layout_schema(out->layout).ok()) << "seed " << seed;
  }
  EXPECT_GT(refused, count / 4);
}

}  // namespace
}  // namespace sparcl::model
