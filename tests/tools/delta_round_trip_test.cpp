// diff, then apply: the output is the target, byte for byte.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/files/delta_applier.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/delta_maker.hpp"
#include "src/model/files/streamed_target.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

namespace fs = std::filesystem;
using test::Tensors;

class DeltaRoundTrip : public ::testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }

  model::DiffReport diff(const std::string& base, const std::string& target,
                         const codec::BlockMode* mode = nullptr) const {
    const Result<model::DiffReport> report =
        model::make_delta(base, target, at("delta"), {.mode = mode});
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : model::DiffReport{};
  }
  Result<model::ApplyReport> apply(const std::string& base, const std::string& out) const {
    const Result<model::Delta> delta = model::read_delta(at("delta"));
    return delta.ok() ? model::apply_delta(base, *delta, out) : delta.status();
  }
  model::DiffReport expect_round_trip(const std::string& base, const std::string& target,
                                      const codec::BlockMode* mode = nullptr) const {
    const model::DiffReport made = diff(base, target, mode);
    const Result<model::ApplyReport> applied = apply(base, at("out"));
    EXPECT_TRUE(applied.ok()) << applied.status().message();
    if (!applied.ok()) return made;
    EXPECT_TRUE(applied->exact);
    EXPECT_EQ(applied->base_hash, made.base_hash);
    EXPECT_EQ(applied->target_hash, made.target_hash);
    EXPECT_EQ(applied->changed, made.changed);
    test::expect_same(target, at("out"));
    fs::remove_all(at("out"));
    return made;
  }

  // apply_delta() would also succeed if pieces did not: it then reads the base as a whole.
  void expect_streamed(const std::string& base_path, const std::string& target_path) const {
    const Result<model::Delta> delta = model::read_delta(at("delta"));
    ASSERT_TRUE(delta.ok());
    const Result<model::DeltaSummary> summary = model::scan_delta(*delta);
    const Result<model::Checkpoint> base = model::Checkpoint::open_unread(base_path);
    ASSERT_TRUE(summary.ok() && base.ok());
    const auto target = model::StreamedTarget::create(*base, *delta, *summary);
    ASSERT_TRUE(target.ok());
    const Status written = model::write_checkpoint(at("out"), base->layout(), (*target)->tensors(),
                                                   nullptr, {}, {}, {}, target->get());
    ASSERT_TRUE(written.ok()) << written.message();
    test::expect_same(target_path, at("out"));
    fs::remove_all(at("out"));
  }

  test::TempFolder folder_;
};

TEST_F(DeltaRoundTrip, AtEveryDensityInEveryMode) {
  const Tensors base = test::small_model();
  test::write_model(at("base"), base);
  for (const double density : {0.0, 0.0001, 0.01, 0.3, 1.0}) {
    Tensors target = base;
    test::change(target, density, 7);
    test::write_model(at("target"), target);
    expect_round_trip(at("base"), at("target"));
    for (const codec::BlockMode* mode : codec::block_modes())
      expect_round_trip(at("base"), at("target"), mode);
  }
}

// A target is made in pieces of 32 blocks: several, with tensors and entries across their ends.
TEST_F(DeltaRoundTrip, OfSeveralPieces) {
  Tensors base;
  test::add_tensor(base, "large", DataType::kBfloat16, {3, 1 << 20}, 1);
  for (int i = 0; i < 40; ++i)
    test::add_tensor(base, fmt::format("small.{}", i), DataType::kBfloat16, {977}, 2 + i);
  test::add_tensor(base, "wide", DataType::kFloat32, {5 << 18}, 50);
  test::write_shards(at("base"), base, 20);
  for (const double density : {0.00003, 0.0003, 0.01, 0.2, 1.0}) {
    Tensors target = base;
    test::change(target, density, 7);
    test::write_shards(at("target"), target, 20);
    expect_round_trip(at("base"), at("target"));
    expect_streamed(at("base"), at("target"));
    fs::remove_all(at("target"));
  }
}

TEST_F(DeltaRoundTrip, ThreadsChangeNoByte) {
  const Tensors base = test::small_model();
  test::write_model(at("base"), base);
  Tensors target = base;
  test::change(target, 0.01, 7);
  test::write_model(at("target"), target);
  std::vector<std::string> deltas;
  for (const char* threads : {"1", "3"}) {
    ASSERT_EQ(::setenv("SPARCL_THREADS", threads, 1), 0);
    expect_round_trip(at("base"), at("target"));
    deltas.push_back(test::read_text(at("delta")));
  }
  ASSERT_EQ(::setenv("SPARCL_THREADS", "some", 1), 0);
  EXPECT_EQ(model::make_delta(at("base"), at("target"), at("delta"), {}).status().code(),
            Code::kInvalidArgument);
  ASSERT_EQ(::unsetenv("SPARCL_THREADS"), 0);
  EXPECT_EQ(deltas[0], deltas[1]);
}

// New tensors come whole, and may be packed to a part of their size, or to next to nothing.
TEST_F(DeltaRoundTrip, NewTensorsMayBeSmallInTheDelta) {
  const Tensors base = test::small_model();
  test::write_model(at("base"), base);
  Tensors target = base;
  test::add_tensor(target, "new.zeros", DataType::kFloat32, {700, 1000}, 1);
  std::ranges::fill(target.bytes.back(), std::byte{0});
  test::add_tensor(target, "new.narrow", DataType::kBfloat16, {300, 1000}, 2);
  for (std::byte& byte : target.bytes.back()) byte &= std::byte{0x11};
  test::write_model(at("target"), target);
  const model::DiffReport made = expect_round_trip(at("base"), at("target"));
  EXPECT_LT(made.bytes, std::uint64_t{1} << 20);
}

TEST_F(DeltaRoundTrip, CarriesMetadata) {
  const Tensors base = test::small_model();
  test::write_model(at("base"), base, {{"step", "1"}, {"format", "pt"}});
  test::write_model(at("target"), base, {{"step", "200"}, {"note", "n\xc3\xa4"}});
  const model::DiffReport report = expect_round_trip(at("base"), at("target"));
  EXPECT_EQ(report.changed, 0u);
  EXPECT_EQ(report.base_hash, report.target_hash);
  EXPECT_LT(report.bytes, 400u);
}

TEST_F(DeltaRoundTrip, CarriesTensorsThatComeGoAndChange) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.01, 3);
  target.schema[0].shape = {250, 280};            // the same elements in another shape
  std::swap(target.schema[1], target.schema[2]);  // another order
  std::swap(target.bytes[1], target.bytes[2]);
  target.schema.pop_back();  // one less
  target.bytes.pop_back();
  test::add_tensor(target, "new", DataType::kBfloat16, {70000},
                   9);  // one more, of more than a block
  test::add_tensor(target, "mask2", DataType::kBool, {5}, 9);
  test::write_model(at("base"), base);
  test::write_model(at("target"), target);
  const model::DiffReport report = expect_round_trip(at("base"), at("target"));
  EXPECT_GE(report.changed, 70005u);
  expect_round_trip(at("target"), at("base"));
}

TEST_F(DeltaRoundTrip, FromAndToNothing) {
  test::write_model(at("empty"), {});
  test::write_model(at("full"), test::small_model());
  expect_round_trip(at("empty"), at("full"));
  expect_round_trip(at("full"), at("empty"));
  expect_round_trip(at("empty"), at("empty"));
}

TEST_F(DeltaRoundTrip, BetweenShardsAndFiles) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.01, 3);
  test::write_model(at("base.safetensors"), base);
  test::write_model(at("target.safetensors"), target);
  test::write_shards(at("base2"), base, 2, {{"step", "1"}});
  test::write_shards(at("target2"), target, 2, {{"step", "2"}});
  test::write_shards(at("target3"), target, 3);
  expect_round_trip(at("base2"), at("target2"));
  expect_round_trip(at("base2"), at("target3"));
  expect_round_trip(at("base2"), at("target.safetensors"));
  expect_round_trip(at("base.safetensors"), at("target2"));
}

TEST_F(DeltaRoundTrip, InPlace) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.01, 3);
  test::write_model(at("base"), base);
  test::write_model(at("target"), target);
  diff(at("base"), at("target"));
  ASSERT_TRUE(apply(at("base"), at("base")).ok());
  test::expect_same(at("target"), at("base"));

  test::write_shards(at("folder"), base, 2);
  test::write_shards(at("folder-target"), target, 4);  // fewer shards: the old ones must go
  test::write_text(at("folder/config.json"), "{}");
  diff(at("folder"), at("folder-target"));
  const Result<model::ApplyReport> applied = apply(at("folder"), at("folder"));
  ASSERT_TRUE(applied.ok()) << applied.status().message();
  EXPECT_EQ(test::read_text(at("folder/config.json")), "{}");
  fs::remove(at("folder/config.json"));
  test::expect_same(at("folder-target"), at("folder"));
}

// A base with the right tensors that another program wrote.
TEST_F(DeltaRoundTrip, ABaseWithAnotherHeaderGivesTheTargetsTensorsAndMetadata) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.01, 3);
  test::write_model(at("base"), base, {{"step", "1"}});
  test::write_model(at("target"), target, {{"step", "2"}});
  test::write_model(at("foreign"), base, {{"by", "another"}, {"step", "1"}});
  diff(at("base"), at("target"));
  const Result<model::ApplyReport> applied = apply(at("foreign"), at("out"));
  ASSERT_TRUE(applied.ok()) << applied.status().message();
  EXPECT_FALSE(applied->exact);
  const Result<model::Checkpoint> out = model::Checkpoint::open(at("out"));
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->metadata(0), (model::Metadata{{"by", "another"}, {"step", "2"}}));
  for (std::size_t i = 0; i < target.bytes.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(out->bytes(i), target.bytes[i]));
}

TEST_F(DeltaRoundTrip, EveryPairOfTheTrace) {
  const std::string trace = test::trace_folder();
  if (trace.empty()) GTEST_SKIP() << test::kNoTrace;
  const std::vector<std::string> files = test::sorted_files(trace + "/weights");
  ASSERT_GE(files.size(), 2u);
  for (const std::string& base : files) {
    for (const std::string& target : files) expect_round_trip(base, target);
  }
}

TEST_F(DeltaRoundTrip, TheTraceCostsAtMost10Point2BitsAChange) {
  const std::string trace = test::trace_folder();
  if (trace.empty()) GTEST_SKIP() << test::kNoTrace;
  const std::vector<std::string> files = test::sorted_files(trace + "/weights");
  ASSERT_GE(files.size(), 2u);
  for (std::size_t i = 0; i + 1 < files.size(); ++i) {
    for (const codec::BlockMode* mode :
         {static_cast<const codec::BlockMode*>(nullptr), &codec::kFlatMode}) {
      const model::DiffReport report = expect_round_trip(files[i], files[i + 1], mode);
      ASSERT_GT(report.changed, 0u);
      EXPECT_LE(8.0 * static_cast<double>(report.bytes) / static_cast<double>(report.changed), 10.2)
          << files[i];
    }
  }
}

TEST_F(DeltaRoundTrip, RefusesALongAttachmentByName) {
  Tensors base;
  Tensors target;
  for (int i = 0; i < 3; ++i)
    test::add_tensor(target, fmt::format("{}{}", i, std::string(3'000'000, 'n')), DataType::kUint8,
                     {1}, 1);
  test::write_model(at("base"), base);
  test::write_model(at("target"), target);
  const Status status = model::make_delta(at("base"), at("target"), at("delta")).status();
  EXPECT_THAT(status.message(), ::testing::HasSubstr("attachment"));
  EXPECT_FALSE(fs::exists(at("delta")));
}

}  // namespace
}  // namespace sparcl::tool
