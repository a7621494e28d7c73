// Changes in the layouts of other programs: files that a script wrote from their description, and
// round trips.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/model/files/converter.hpp"
#include "src/model/files/delta_applier.hpp"
#include "src/model/files/delta_maker.hpp"
#include "tests/support/tree.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::tool {
namespace {

using test::run_program;
using test::Tensors;
using ::testing::HasSubstr;

constexpr const char* kLayouts[] = {"coo", "coo_zstd", "indices", "deltas", "deltas_zstd"};

class Convert : public ::testing::Test {
 protected:
  std::string at(std::string_view name) const { return folder_ / name; }

  void expect_converts(const std::string& from, const std::string& to, const std::string& layout,
                       const std::string& base) const {
    const Result<model::ConvertReport> report = model::convert_change({from, to, "", layout, base});
    EXPECT_TRUE(report.ok()) << layout << ": " << report.status().message();
  }
  // delta -> layout -> delta, bit for bit.
  void expect_round_trips(const std::string& base, const std::string& delta) const {
    for (const char* layout : kLayouts) {
      expect_converts(delta, at("foreign"), layout, base);
      expect_converts(at("foreign"), at("again"), "sparcl", base);
      test::expect_same(delta, at("again"));
      for (const char* other : kLayouts) {  // from one foreign layout to the next and back
        expect_converts(at("foreign"), at("other"), other, base);
        expect_converts(at("other"), at("again"), "sparcl", base);
        test::expect_same(delta, at("again"));
        std::filesystem::remove_all(at("other"));
      }
      std::filesystem::remove_all(at("foreign"));
    }
  }

  test::TempFolder folder_;
};

TEST_F(Convert, ReadsWhatOthersWrite) {
  const std::string script = (test::tree() / "tests/tools/make_exchange_files.py").string();
  ASSERT_EQ(std::system(fmt::format("python3 '{}' '{}'", script, folder_.path().string()).c_str()),
            0);
  for (const char* name :
       {"coo.safetensors", "coo.safetensors.zst", "indices", "deltas", "deltas_zstd"}) {
    const Result<model::ConvertReport> report = model::convert_change(
        {at(name), at("delta"), "", model::kOwnFormat, at("base.safetensors")});
    ASSERT_TRUE(report.ok()) << name << ": " << report.status().message();
    EXPECT_EQ(report->tensors, 4u);
    const Result<model::Delta> delta = model::read_delta(at("delta"));
    ASSERT_TRUE(delta.ok());
    ASSERT_TRUE(model::apply_delta(at("base.safetensors"), *delta, at("out")).ok());
    test::expect_same(at("target.safetensors"), at("out"));
  }
}

TEST_F(Convert, EveryLayoutRoundTripsBitForBit) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_model(at("base"), base, {{"step", "1"}});
  test::write_model(at("target"), target, {{"step", "2"}});  // metadata travel along
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta"),
                                {.base_version = 7, .target_version = 9})
                  .ok());
  expect_round_trips(at("base"), at("delta"));
}

TEST_F(Convert, ANoChangeRoundTripsToo) {
  test::write_model(at("base"), test::small_model());
  ASSERT_TRUE(model::make_delta(at("base"), at("base"), at("delta")).ok());
  expect_round_trips(at("base"), at("delta"));
}

TEST_F(Convert, FoldersKeepTheirSideFiles) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_shards(at("base"), base, 3);
  test::write_shards(at("target"), target, 3);
  test::write_text(at("target/config.json"), "{\"hidden\": 8}");
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta")).ok());
  expect_round_trips(at("base"), at("delta"));
}

// Of folders: bit for bit back to our delta, and from one layout to the next.
TEST_F(Convert, FolderLayoutsRoundTrip) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_shards(at("base"), base, 3);
  test::write_text(at("base/config.json"), "{\"hidden\": 7}");
  test::write_shards(at("target"), target, 3);
  test::write_text(at("target/config.json"), "{\"hidden\": 8}");
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta"),
                                {.base_version = 6, .target_version = 7})
                  .ok());
  for (const char* layout : {"hf-xor", "hf-xor_xxh3", "hf-overwrite", "hf-full", "arc2", "skyrl"}) {
    const std::string folder = at(layout);
    expect_converts(at("delta"), folder, layout, at("base"));
    expect_converts(folder, at("again"), "sparcl", at("base"));
    test::expect_same(at("delta"), at("again"));
    expect_converts(folder, at("other"), "indices", at("base"));
    expect_converts(at("other"), at("again"), "sparcl", at("base"));
    std::filesystem::remove_all(at("other"));
    const Result<model::Delta> delta = model::read_delta(at("again"));
    ASSERT_TRUE(delta.ok());
    EXPECT_TRUE(model::apply_delta(at("base"), *delta, at("out")).ok()) << layout;
    std::filesystem::remove_all(at("out"));
  }
  // A complete folder is a checkpoint with the target's tensors.
  const Result<model::Checkpoint> full = model::Checkpoint::open(at("hf-full"));
  ASSERT_TRUE(full.ok()) << full.status().message();
  for (std::size_t i = 0; i < target.bytes.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(full->bytes(i), target.bytes[i])) << target.schema[i].name;
  }
}

TEST_F(Convert, FolderLayoutsNeedABaseAndAVersion) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_model(at("base"), base);
  test::write_model(at("target"), target);
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta")).ok());
  expect_converts(at("delta"), at("weight_v000007"), "hf-xor", at("base"));
  expect_converts(at("delta"), at("coo"), "coo", at("base"));
  const auto message_of = [](const model::ConvertOptions& options) {
    return model::convert_change(options).status().message();
  };
  EXPECT_THAT(message_of({at("weight_v000007"), at("x"), "", "coo", ""}), HasSubstr("as `base`"));
  EXPECT_THAT(message_of({at("coo"), at("x"), "", "hf-xor", ""}), HasSubstr("as `base`"));
  EXPECT_THAT(message_of({at("coo"), at("x"), "", "hf-xor", at("base")}),
              HasSubstr("weight_vNNNNNN"));
  EXPECT_THAT(message_of({at("coo"), at("x"), "", "hf-full", at("base")}),
              HasSubstr("config.json"));
  EXPECT_THAT(message_of({at("coo"), at("x"), "hf-xor", "sparcl", at("base")}),
              HasSubstr("not in layout hf-xor"));
  EXPECT_THAT(message_of({at("coo"), at("weight_v000007"), "", "hf-xor", at("base")}),
              HasSubstr("exists"));
  std::filesystem::create_directory(at("weight_v000008"));
  std::filesystem::copy_file(at("coo"), at("weight_v000008/1.safetensors"));
  EXPECT_THAT(message_of({at("weight_v000008"), at("x"), "", "sparcl", at("base")}),
              HasSubstr("DONE is there: its writer has not finished"));
  test::write_text(at("weight_v000008/DONE"), "");
  expect_converts(at("weight_v000008"), at("from_done"), "sparcl", at("base"));
  // A folder without its index is told which file is missing.
  const std::string index = "model.safetensors.index.json";
  std::filesystem::remove(at("weight_v000007/" + index));
  EXPECT_THAT(message_of({at("weight_v000007"), at("x"), "", "sparcl", at("base")}),
              HasSubstr("neither " + index + " nor the marker DONE"));
  EXPECT_THAT(message_of({at("weight_v000007"), at("x"), "hf-xor", "sparcl", at("base")}),
              HasSubstr("the folder has no " + index));
  std::filesystem::rename(at("weight_v000007"), at("other"));
  EXPECT_THAT(message_of({at("other"), at("x"), "", "sparcl", at("base")}),
              HasSubstr("the folder has no " + index));
  EXPECT_FALSE(std::filesystem::exists(at("x")));
}

TEST_F(Convert, OfTheTrace) {
  const std::string trace = test::trace_folder();
  if (trace.empty()) GTEST_SKIP() << test::kNoTrace;
  const std::vector<std::string> files = test::sorted_files(trace + "/weights");
  ASSERT_TRUE(model::make_delta(files[0], files[1], at("delta")).ok());
  expect_round_trips(files[0], at("delta"));
}

TEST_F(Convert, OtherTensorsAreRefused) {
  const Tensors base = test::small_model();
  Tensors grown = base;
  test::add_tensor(grown, "new", DataType::kBfloat16, {70}, 9);
  test::write_model(at("base"), base);
  test::write_model(at("grown"), grown);
  ASSERT_TRUE(model::make_delta(at("base"), at("grown"), at("delta")).ok());
  EXPECT_EQ(model::convert_change({at("delta"), at("x"), "", "coo", at("base")}).status().code(),
            Code::kUnsupported);

  Tensors changed = grown;
  test::change(changed, 0.02, 3);
  test::write_model(at("changed"), changed);
  ASSERT_TRUE(model::make_delta(at("grown"), at("changed"), at("delta")).ok());
  expect_converts(at("delta"), at("coo"), "coo", at("grown"));
  for (const char* layout : {"sparcl", "deltas"}) {
    EXPECT_EQ(model::convert_change({at("coo"), at("x"), "", layout, at("base")}).status().code(),
              Code::kMismatch);
  }
  EXPECT_FALSE(std::filesystem::exists(at("x")));
}

TEST_F(Convert, TheProgram) {
  const Tensors base = test::small_model();
  Tensors target = base;
  test::change(target, 0.02, 3);
  test::write_model(at("base"), base);
  test::write_model(at("target"), target);
  ASSERT_TRUE(model::make_delta(at("base"), at("target"), at("delta")).ok());
  const test::ProgramRun run = run_program(
      {"convert", at("delta"), "-o", at("coo"), "--to", "coo", "--base", at("base"), "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.json()["from"], "sparcl");
  EXPECT_EQ(run.json()["bytes"], std::filesystem::file_size(at("coo")));
  // Each failure by its exit code.
  EXPECT_EQ(run_program({"convert", at("delta"), "-o", at("x"), "--to", "coo"}).exit_code,
            1);  // no base
  EXPECT_EQ(run_program({"convert", at("coo"), "-o", at("x"), "--to", "sparcl"}).exit_code, 1);
  EXPECT_EQ(run_program({"convert", at("coo"), "-o", at("x"), "--to", "deltas"}).exit_code,
            1);  // no shapes
  EXPECT_EQ(run_program({"convert", at("coo"), "-o", at("x"), "--to", "coo_zstd"}).exit_code, 0);
  EXPECT_EQ(
      run_program({"convert", at("delta"), "-o", at("y"), "--to", "coo", "--base", at("target")})
          .exit_code,
      3);
  EXPECT_EQ(
      run_program({"convert", at("coo"), "-o", at("y"), "--from", "deltas", "--to", "coo_zstd"})
          .exit_code,
      3);
  EXPECT_EQ(
      run_program({"convert", at("delta"), "-o", at("y"), "--from", "coo", "--to", "coo_zstd"})
          .exit_code,
      3);
  const test::ProgramRun none = run_program({"convert", at("base"), "-o", at("y"), "--to", "coo"});
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.err, HasSubstr("none of the layouts"));
  EXPECT_EQ(run_program({"convert", at("coo"), "-o", at("y"), "--to", "nonsense"}).exit_code, 2);
  EXPECT_EQ(run_program({"convert", at("coo"), "-o", at("y")}).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(at("y")));
}

}  // namespace
}  // namespace sparcl::tool
