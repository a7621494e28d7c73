// What travels beside the tensors: changes of the layout in a row, and files beside the shards.
#include "src/model/attachment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "src/model/checkpoint_writer.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Hash128 kHash{1, 2};

Layout layout_of(const Metadata& metadata) {
  return single_file_layout({{"a", DataType::kFloat32, {4}}, {"b", DataType::kInt8, {3}}},
                            metadata);
}

LayoutChange between(const Layout& base, const Layout& target) {
  const Result<LayoutChange> change = compare_layouts(base, target, kHash);
  EXPECT_TRUE(change.ok());
  return *change;
}

// base -> ... -> last, composed one by one, gives `last` on the base.
void expect_composes(const std::vector<Layout>& layouts) {
  LayoutChange all = between(layouts[0], layouts[1]);
  for (std::size_t i = 2; i < layouts.size(); ++i) {
    const Result<LayoutChange> next =
        compose_layout_changes(all, between(layouts[i - 1], layouts[i]));
    ASSERT_TRUE(next.ok()) << next.status().message();
    all = *next;
  }
  const Result<LayoutChange> carried = parse_layout_change(serialise(all));
  ASSERT_TRUE(carried.ok());
  const Result<ChangedLayout> out = apply_layout_change(*carried, layouts.front());
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->exact);
  EXPECT_TRUE(out->layout == layouts.back());
  // A base that another program wrote gets the last one's metadata.
  Layout foreign = layouts.front();
  foreign.files[0].header += ' ';
  const Result<ChangedLayout> edited = apply_layout_change(*carried, foreign);
  ASSERT_TRUE(edited.ok()) << edited.status().message();
  Metadata wanted = parse_header(layouts.back().files[0].header)->metadata;
  Metadata got = parse_header(edited->layout.files[0].header)->metadata;
  std::ranges::sort(wanted);
  std::ranges::sort(got);
  EXPECT_EQ(got, wanted);
}

TEST(LayoutChangesInARow, ComposeWhereOneValueChanges) {
  std::vector<Layout> steps;
  for (int step = 95; step < 125; ++step)
    steps.push_back(layout_of({{"format", "pt"}, {"step", std::to_string(step)}}));
  expect_composes(steps);
}

TEST(LayoutChangesInARow, ComposeWhereSeveralValuesChange) {
  std::vector<Layout> steps;
  std::mt19937_64 random(3);
  for (int step = 8; step < 30; ++step) {
    steps.push_back(layout_of({{"format", "pt"},
                               {"loss", std::to_string(random() % 10)},
                               {"step", std::to_string(step)}}));
  }
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    for (std::size_t j = i + 1; j + 1 < steps.size(); ++j) {
      // Never a wrong text: composed, or refused where the base would be needed.
      const Result<LayoutChange> both =
          compose_layout_changes(between(steps[i], steps[j]), between(steps[j], steps[j + 1]));
      if (both.ok()) {
        EXPECT_TRUE(apply_layout_change(*both, steps[i])->layout == steps[j + 1]);
      } else {
        EXPECT_EQ(both.status().code(), Code::kUnsupported);
      }
    }
  }
}

TEST(LayoutChangesInARow, ComposeWhereKeysComeAndGo) {
  expect_composes({layout_of({{"k", "v"}}), layout_of({}),
                   layout_of({{"z", "long value of another key"}}), layout_of({{"k", "w"}})});
  expect_composes({layout_of({}), layout_of({{"k", "v"}}), layout_of({})});
}

TEST(LayoutChangesInARow, AreRefusedWhereTheyDoNotFollow) {
  const Layout a = layout_of({{"k", "1"}});
  const Layout b = layout_of({{"k", "2"}});
  const Layout c = layout_of({{"k", "3"}});
  EXPECT_EQ(compose_layout_changes(between(a, b), between(a, c)).status().code(), Code::kWrongBase);
  const Layout grown = single_file_layout({{"a", DataType::kFloat32, {5}}}, {});
  EXPECT_EQ(compose_layout_changes(between(a, b), between(b, grown)).status().code(),
            Code::kUnsupported);
  const Layout apart =
      layout_of({{"a", "1"}, {"middle", "that stays as it is, and is long"}, {"z", "1"}});
  const Layout first =
      layout_of({{"a", "2"}, {"middle", "that stays as it is, and is long"}, {"z", "1"}});
  const Layout second =
      layout_of({{"a", "2"}, {"middle", "that stays as it is, and is long"}, {"z", "2"}});
  const Status status =
      compose_layout_changes(between(apart, first), between(first, second)).status();
  EXPECT_THAT(status.message(), HasSubstr("apart"));
}

TEST(LayoutChange, AForgedPatchIsFoundByTheDigest) {
  const Layout a = layout_of({{"k", "1"}});
  LayoutChange change = between(a, layout_of({{"k", "2"}}));
  change.files[0].header.text = "3";
  EXPECT_EQ(apply_layout_change(change, a).status().code(), Code::kCorrupt);
}

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

TEST(SideFiles, AreNamesThatStayInTheFolder) {
  for (const char* name :
       {"config.json", "tokenizer.model", "chat_template.jinja", "merges.txt", "README.md"}) {
    EXPECT_TRUE(is_side_file(name)) << name;
  }
  for (const char* name : {"", ".json", ".hidden.json", "../config.json", "a/b.json", "..",
                           "a\\b.json", "model.safetensors", "model.safetensors.index.json",
                           "modeling.py", "run.sh", "optimizer.pt", "a\nb.json", "\xff.json"}) {
    EXPECT_FALSE(is_side_file(name)) << name;
  }
}

TEST(SideFiles, OnlyWhatChangedTravels) {
  const std::vector<SideFile> base{
      {"a.json", bytes_of("1")}, {"b.json", bytes_of("2")}, {"gone.json", bytes_of("3")}};
  const std::vector<SideFile> target{
      {"a.json", bytes_of("1")}, {"b.json", bytes_of("4")}, {"new.txt", {}}};
  const Result<std::vector<PackedFile>> changed = changed_side_files(base, target);
  ASSERT_TRUE(changed.ok());
  ASSERT_EQ(changed->size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const Result<SideFile> file = unpack((*changed)[i]);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(file->name, target[i + 1].name);
    EXPECT_EQ(file->content, target[i + 1].content);
  }
}

Attachment example_attachment() {
  Attachment attachment;
  attachment.layout = between(layout_of({{"k", "1"}}), layout_of({{"k", "2"}}));
  attachment.side_files.push_back(*pack({"config.json", bytes_of("{\"hidden\": 64}")}));
  attachment.side_files.push_back(
      *pack({"tokenizer.json", std::vector<std::byte>(5000, std::byte{7})}));
  return attachment;
}

TEST(Attachment, ComesBack) {
  const Result<Attachment> parsed = parse_attachment(serialise(example_attachment()));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed->side_files, example_attachment().side_files);
  EXPECT_EQ(serialise(*parsed), serialise(example_attachment()));
  EXPECT_TRUE(serialise(Attachment()).empty());
}

TEST(Attachment, InARowTheLaterFileCounts) {
  Attachment later;
  later.side_files.push_back(*pack({"config.json", bytes_of("new")}));
  later.side_files.push_back(*pack({"added.json", bytes_of("x")}));
  const Result<Attachment> both = compose_attachments(example_attachment(), later);
  ASSERT_TRUE(both.ok());
  std::vector<std::string> names;
  for (const PackedFile& file : both->side_files) names.push_back(file.name);
  EXPECT_THAT(names, ElementsAre("added.json", "config.json", "tokenizer.json"));
  EXPECT_EQ(unpack(both->side_files[1])->content, bytes_of("new"));
  EXPECT_TRUE(both->layout.has_value());
}

TEST(Attachment, CutOrForgedIsRefused) {
  const std::vector<std::byte> good = serialise(example_attachment());
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(parse_attachment(std::span(good).first(length)).status().code(), Code::kCorrupt)
        << length;
  }
  const auto with_file = [](PackedFile file) {
    Attachment attachment;
    attachment.side_files.push_back(std::move(file));
    return parse_attachment(serialise(attachment)).status().code();
  };
  PackedFile file = *pack({"a.json", bytes_of("content")});
  EXPECT_EQ(with_file(file), Code::kSuccess);
  for (const char* name : {"../a.json", "a/b.json", ".a.json", "a.py", "model.safetensors"}) {
    PackedFile outside = file;
    outside.name = name;
    EXPECT_EQ(with_file(outside), Code::kCorrupt) << name;
  }
  PackedFile large = file;
  large.bytes = kMaxSideFileBytes + 1;
  EXPECT_EQ(with_file(large), Code::kCorrupt);
  large.bytes = 8;  // not what its frame says
  EXPECT_EQ(unpack(large).status().code(), Code::kCorrupt);
  file.packed.back() ^= std::byte{1};  // zstd's own checksum
  EXPECT_EQ(unpack(file).status().code(), Code::kCorrupt);
}

TEST(Attachment, MutationsDoNoHarm) {
  std::mt19937_64 random(9);
  const std::vector<std::byte> good = serialise(example_attachment());
  const Layout base = layout_of({{"k", "1"}});
  for (int i = 0; i < test::by_tier(5000, 500000); ++i) {
    std::vector<std::byte> bytes = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
      bytes[random() % bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    const Result<Attachment> attachment = parse_attachment(bytes);
    if (!attachment.ok()) continue;
    if (attachment->layout) (void)apply_layout_change(*attachment->layout, base).ok();
    for (const PackedFile& file : attachment->side_files) {
      EXPECT_TRUE(is_side_file(file.name));
      const Result<SideFile> unpacked = unpack(file);
      EXPECT_TRUE(!unpacked.ok() || unpacked->content.size() <= kMaxSideFileBytes);
    }
  }
}

}  // namespace
}  // namespace sparcl::model
