// The functions of file.h, as programs call them: what they write is what the program writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "file_calls.hpp"
#include "sparcl/file.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class FileApi : public FileCalls {};

TEST_F(FileApi, DiffAndApplyRestoreTheTarget) {
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(diff("s0", "s1", "delta", nullptr, &report), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(report.elements, kElements + 64);
  EXPECT_EQ(report.changed, 100u);
  EXPECT_EQ(report.bytes, fs::file_size(at("delta")));
  EXPECT_EQ(report.dense_bytes, 280'128u);
  EXPECT_EQ(report.left_out, 0u);
  EXPECT_EQ(report.largest_error, 0);
  EXPECT_GT(report.seconds, 0);
  EXPECT_EQ(std::strlen(report.base_hash), 32u);
  expect_as_program("delta", "diff s0 s1");

  sparclFileReport_t applied = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(apply("s0", "delta", "out", &applied), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_EQ(content_of(at("out")), content_of(at("s1")));
  EXPECT_EQ(applied.changed, 100u);
  EXPECT_EQ(applied.bytes, 280'128u);
  EXPECT_EQ(applied.input_bytes, report.bytes);
  EXPECT_STREQ(applied.base_hash, report.base_hash);
  EXPECT_STREQ(applied.target_hash, report.target_hash);
  EXPECT_EQ(applied.same_header, 1);
  expect_as_program("out", "apply s0 delta");

  ASSERT_EQ(apply("s0", "delta", "s0"), sparclSuccess) << "in place";
  EXPECT_EQ(content_of(at("s0")), content_of(at("s1")));
}

TEST_F(FileApi, DiffSelectsAsTheProgramDoes) {
  sparclUpdateOptions_t selection = SPARCL_UPDATE_OPTIONS_INITIALIZER;
  selection.select = sparclSelectTopK;
  selection.count = 30;
  const char* only = "weig*";
  sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  options.selection = &selection;
  options.only = &only;
  options.only_count = 1;
  options.threads = 2;
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(diff("s0", "s1", "delta", &options, &report), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(report.changed, 30u);
  EXPECT_EQ(report.left_out, 70u);
  EXPECT_DOUBLE_EQ(report.left_out_largest, 0.5);
  EXPECT_NEAR(report.left_out_l2, std::sqrt(70 * 0.25), 1e-9);
  EXPECT_DOUBLE_EQ(report.largest_error, 0.5);
  EXPECT_NEAR(report.relative_error, std::sqrt(0.7), 1e-9);
  expect_as_program("delta", "diff s0 s1 --largest 30 --only 'weig*'");

  selection.select = sparclSelectAll;
  selection.values = sparclValuesInt8;
  options.mode = "flat";
  options.only_count = 0;
  ASSERT_EQ(diff("s0", "s1", "delta", &options, &report), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(report.left_out, 0u);
  EXPECT_EQ(report.largest_error, report.quantisation_largest);
  expect_as_program("delta", "diff s0 s1 --values int8 --mode flat");
}

TEST_F(FileApi, DiffTellsTensorsAndFiles) {
  write_content(at("other"), checkpoint(1, "bias"));
  Told told;
  sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  listen(options, told);
  ASSERT_EQ(diff("s0", "other", "delta", &options), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_THAT(told.names[sparclFileTensorAdded], ElementsAre("bias"));
  EXPECT_THAT(told.names[sparclFileTensorRemoved], ElementsAre("norm"));
  ASSERT_FALSE(told.progress.empty());
  EXPECT_EQ(told.progress.back().first, told.progress.back().second);

  for (const char* folder : {"f0", "f1"}) {
    fs::create_directory(at(folder));
    write_content(at(folder) + std::string("/config.json"),
                  std::string("{\"name\":\"") + folder + "\"}");
  }
  write_content(at("f0/model.safetensors"), checkpoint(0));
  write_content(at("f1/model.safetensors"), checkpoint(1));
  ASSERT_EQ(diff("f0", "f1", "delta", &options), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_THAT(told.names[sparclFileSideFile], ElementsAre("config.json"));
  told.names.clear();
  options.side_files = sparclFileSideFilesOmit;
  ASSERT_EQ(diff("f0", "f1", "delta", &options), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_TRUE(told.names.empty());

  write_content(at("f0/model.safetensors.index.json"),
                R"({"weight_map":{"weights":"model.safetensors","norm":"model.safetensors"}})");
  write_content(at("f0/model-2.safetensors"), checkpoint(2));
  sparclFileOptions_t hash = SPARCL_FILE_OPTIONS_INITIALIZER;
  listen(hash, told);
  ASSERT_EQ(sparclFileHash(at("f0").c_str(), sparclFileHashState, &hash, nullptr), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_THAT(told.names[sparclFileNotInIndex], ElementsAre(at("f0/model-2.safetensors")));
}

TEST_F(FileApi, VerifyTellsDeltasFromCheckpoints) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(sparclFileVerify(at("delta").c_str(), nullptr, &report), sparclSuccess);
  EXPECT_EQ(report.is_delta, 1);
  EXPECT_EQ(report.bytes, fs::file_size(at("delta")));
  EXPECT_GE(report.blocks, 1u);
  EXPECT_GE(report.chunks, 1u);
  EXPECT_EQ(std::strlen(report.target_hash), 32u);
  ASSERT_EQ(sparclFileVerify(at("s0").c_str(), nullptr, &report), sparclSuccess);
  EXPECT_EQ(report.is_delta, 0);
  EXPECT_EQ(report.tensors, 2u);
  EXPECT_STREQ(report.target_hash, "");
}

TEST_F(FileApi, DamageIsCorrupt) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  const std::string good = content_of(at("delta"));
  for (std::size_t place = 5; place < good.size(); place += good.size() / 7) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x41);
    write_content(at("delta"), bad);
    EXPECT_EQ(sparclFileVerify(at("delta").c_str(), nullptr, nullptr), sparclCorrupt) << place;
    EXPECT_THAT(sparclGetLastError(nullptr),
                AllOf(StartsWith("sparclFileVerify: "), HasSubstr(at("delta"))));
    EXPECT_EQ(apply("s0", "delta", "out"), sparclCorrupt) << place;
    expect_no_output("out");
  }
  write_content(at("delta"), good.substr(0, good.size() - 9));
  EXPECT_EQ(sparclFileVerify(at("delta").c_str(), nullptr, nullptr), sparclCorrupt);
  write_content(at("s0"), checkpoint(0).substr(0, 100'000));
  EXPECT_EQ(sparclFileHash(at("s0").c_str(), sparclFileHashState, nullptr, nullptr), sparclCorrupt);
  EXPECT_EQ(apply("delta", "s0", "out"), sparclCorrupt) << "swapped";
}

TEST_F(FileApi, AnotherBaseIsRefused) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  EXPECT_EQ(apply("s2", "delta", "out"), sparclWrongBase);
  EXPECT_THAT(sparclGetLastError(nullptr),
              AllOf(StartsWith("sparclFileApply: "), HasSubstr("not the base")));
  EXPECT_EQ(
      sparclFileInvert(at("s2").c_str(), at("delta").c_str(), at("out").c_str(), nullptr, nullptr),
      sparclWrongBase);
  expect_no_output("out");
}

TEST_F(FileApi, ComposeAndInvertAreTheProgramsFiles) {
  ASSERT_EQ(diff("s0", "s1", "d1"), sparclSuccess);
  ASSERT_EQ(diff("s1", "s2", "d2"), sparclSuccess);
  const std::string first = at("d1"), second = at("d2"), output = at("all");
  const std::array<const char*, 2> deltas{first.c_str(), second.c_str()};
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(sparclFileCompose(deltas.data(), 2, at("s0").c_str(), output.c_str(), nullptr, &report),
            sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(report.changed, 100u);
  EXPECT_EQ(report.input_bytes, fs::file_size(first) + fs::file_size(second));
  expect_as_program("all", "compose d1 d2 --base s0");
  ASSERT_EQ(apply("s0", "all", "out"), sparclSuccess);
  EXPECT_EQ(content_of(at("out")), content_of(at("s2")));
  const std::array<const char*, 2> wrong{second.c_str(), first.c_str()};
  EXPECT_EQ(sparclFileCompose(wrong.data(), 2, nullptr, at("x").c_str(), nullptr, nullptr),
            sparclWrongBase);
  expect_no_output("x");

  ASSERT_EQ(sparclFileInvert(at("s0").c_str(), first.c_str(), at("back").c_str(), nullptr, &report),
            sparclSuccess);
  expect_as_program("back", "invert s0 d1");
  ASSERT_EQ(apply("s1", "back", "out"), sparclSuccess);
  EXPECT_EQ(content_of(at("out")), content_of(at("s0")));
}

TEST_F(FileApi, ConvertsThereAndBack) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
  const auto convert = [&](const char* input, const char* output, const char* to, bool with_base) {
    return sparclFileConvert(at(input).c_str(), nullptr, at(output).c_str(), to,
                             with_base ? at("s0").c_str() : nullptr, nullptr, &report);
  };
  ASSERT_EQ(convert("delta", "coo", "coo", true), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_STREQ(report.layout, "sparcl");
  EXPECT_EQ(report.changed, 100u);
  EXPECT_EQ(report.files, 1u);
  expect_as_program("coo", "convert delta --to coo --base s0");
  ASSERT_EQ(convert("coo", "again", "sparcl", true), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_STREQ(report.layout, "coo");
  EXPECT_EQ(content_of(at("again")), content_of(at("delta")));
  EXPECT_EQ(convert("delta", "x", "coo", false), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("as `base`"));
  EXPECT_EQ(convert("delta", "x", "zip", true), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("expected one of sparcl, "));
  EXPECT_EQ(sparclFileConvert(at("coo").c_str(), "sparcl", at("x").c_str(), "coo_zstd", nullptr,
                              nullptr, nullptr),
            sparclCorrupt);
  expect_no_output("x");
}

TEST_F(FileApi, HashesAreThoseOfDeltas) {
  sparclFileReport_t made = SPARCL_FILE_REPORT_INITIALIZER, report = SPARCL_FILE_REPORT_INITIALIZER;
  ASSERT_EQ(diff("s0", "s1", "delta", nullptr, &made), sparclSuccess);
  const auto hash = [&](sparclFileHashKind_t kind) {
    EXPECT_EQ(sparclFileHash(at("s0").c_str(), kind, nullptr, &report), sparclSuccess);
    return std::string(report.hash);
  };
  EXPECT_EQ(hash(sparclFileHashState), made.base_hash);
  EXPECT_EQ(report.tensors, 2u);
  EXPECT_EQ(report.bytes, 280'128u);
  EXPECT_EQ(hash(sparclFileHashXxh3).size(), 32u);
  EXPECT_EQ(hash(sparclFileHashSha256).size(), 64u);
  EXPECT_EQ(hash(sparclFileHashIdentity).size(), 64u);
  EXPECT_EQ(
      sparclFileHash(at("s0").c_str(), static_cast<sparclFileHashKind_t>(4), nullptr, nullptr),
      sparclInvalidArgument);
}

TEST_F(FileApi, AdviceSaysWhatTheFilesCost) {
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  ASSERT_EQ(sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 1, 8, nullptr, &advice),
            sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(advice.changed, 100u);
  ASSERT_GE(advice.mode_count, 2u);
  EXPECT_STREQ(advice.modes[0].name, "auto");
  bool has_best = false;
  for (std::uint64_t i = 0; i < advice.mode_count; ++i) {
    sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
    options.mode = advice.modes[i].name;
    EXPECT_EQ(diff("s0", "s1", "delta", &options), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(advice.modes[i].bytes, fs::file_size(at("delta"))) << advice.modes[i].name;
    has_best = has_best || std::string(advice.modes[i].name) == advice.best_mode;
  }
  EXPECT_TRUE(has_best) << advice.best_mode;
  EXPECT_LT(advice.sparse_seconds, advice.dense_seconds);
  EXPECT_EQ(sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 0, 8, nullptr, &advice),
            sparclInvalidArgument);
  EXPECT_EQ(sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 1, 1, nullptr, &advice),
            sparclInvalidArgument);
  EXPECT_EQ(sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 1, 8, nullptr, nullptr),
            sparclInvalidArgument);
  write_content(at("other"), checkpoint(1, "bias"));
  EXPECT_EQ(sparclFileAdvise(at("s0").c_str(), at("other").c_str(), 1, 8, nullptr, &advice),
            sparclMismatch);
}

TEST_F(FileApi, TheCppInterfaceIsTheSame) {
  std::vector<std::string> added;
  file::Watch watch;
  watch.on_note = [&](sparclFileNoteKind_t kind, const std::string& name) {
    if (kind == sparclFileTensorAdded) added.push_back(name);
  };
  write_content(at("other"), checkpoint(1, "bias"));
  EXPECT_EQ(file::diff(at("s0"), at("other"), at("x"), {.mode = "flat"}, watch).changed,
            100u + 64u);
  EXPECT_THAT(added, ElementsAre("bias"));
  const file::Report made = file::diff(at("s0"), at("s1"), at("d1"));
  (void)file::diff(at("s1"), at("s2"), at("d2"));
  EXPECT_EQ(file::verify(at("d1")).is_delta, 1);
  EXPECT_EQ(file::hash(at("s0")), made.base_hash);
  const std::vector<std::string> deltas{at("d1"), at("d2")};
  (void)file::compose(deltas, at("all"), at("s0"));
  (void)file::apply(at("s0"), at("all"), at("out"));
  EXPECT_EQ(content_of(at("out")), content_of(at("s2")));
  (void)file::invert(at("s0"), at("d1"), at("back"));
  EXPECT_EQ(file::convert(at("d1"), at("coo"), "coo", at("s0")).files, 1u);
  EXPECT_GT(file::advise(at("s0"), at("s1")).mode_count, 1u);
  try {
    (void)file::apply(at("s2"), at("d1"), at("y"));
    ADD_FAILURE() << "another base is taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclWrongBase);
  }
  watch.on_progress = [](std::uint64_t, std::uint64_t) -> sparclResult_t {
    throw std::runtime_error("stopped by the caller");
  };
  EXPECT_THROW((void)file::apply(at("s0"), at("d1"), at("y"), watch), std::runtime_error);
  expect_no_output("y");
}

}  // namespace
}  // namespace sparcl::test
