// What the functions of file.h refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "file_calls.hpp"

namespace sparcl::test {
namespace {

using ::testing::HasSubstr;

class FileArguments : public FileCalls {};

// Every call with files that cannot be read, or written.
TEST_F(FileArguments, MissingAndUnwritableFilesAreNamed) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  const std::string none = at("none"), base = at("s0"), delta = at("delta"), out = at("out");
  const std::string beyond = at("no_folder/out");
  const char* const missing = none.c_str();
  const char* const deltas[] = {delta.c_str()};
  const auto expect = [](sparclResult_t result, const std::string& path) {
    EXPECT_EQ(result, sparclSystemError);
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr(path));
  };
  expect(sparclFileDiff(base.c_str(), missing, out.c_str(), nullptr, nullptr), none);
  expect(sparclFileApply(missing, delta.c_str(), out.c_str(), nullptr, nullptr), none);
  expect(sparclFileVerify(missing, nullptr, nullptr), none);
  expect(sparclFileCompose(&missing, 1, nullptr, out.c_str(), nullptr, nullptr), none);
  expect(sparclFileInvert(base.c_str(), missing, out.c_str(), nullptr, nullptr), none);
  expect(sparclFileConvert(missing, nullptr, out.c_str(), "coo", nullptr, nullptr, nullptr), none);
  expect(sparclFileHash(missing, sparclFileHashState, nullptr, nullptr), none);
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  expect(sparclFileAdvise(base.c_str(), missing, 1, 2, nullptr, &advice), none);
  expect_no_output("out");

  expect(sparclFileDiff(base.c_str(), at("s1").c_str(), beyond.c_str(), nullptr, nullptr), beyond);
  expect(sparclFileApply(base.c_str(), delta.c_str(), beyond.c_str(), nullptr, nullptr), beyond);
  expect(sparclFileCompose(deltas, 1, base.c_str(), beyond.c_str(), nullptr, nullptr), beyond);
  expect(sparclFileInvert(base.c_str(), delta.c_str(), beyond.c_str(), nullptr, nullptr), beyond);
  expect(sparclFileConvert(delta.c_str(), nullptr, beyond.c_str(), "coo", base.c_str(), nullptr,
                           nullptr),
         beyond);
}

TEST_F(FileArguments, AnOutputIsNoInput) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  const std::string base = content_of(at("s0")), delta = content_of(at("delta"));
  const std::string path = at("delta");
  const char* const deltas[] = {path.c_str()};
  EXPECT_EQ(diff("s0", "s1", "s0"), sparclInvalidArgument);
  EXPECT_EQ(apply("s0", "delta", "delta"), sparclInvalidArgument);
  EXPECT_EQ(sparclFileCompose(deltas, 1, nullptr, deltas[0], nullptr, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(sparclFileInvert(at("s0").c_str(), deltas[0], deltas[0], nullptr, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(sparclFileConvert(deltas[0], nullptr, at("s0").c_str(), "coo", at("s0").c_str(),
                              nullptr, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(content_of(at("s0")), base);
  EXPECT_EQ(content_of(at("delta")), delta);
}

TEST_F(FileArguments, NullArgumentsAreNamed) {
  const std::string base = at("s0"), out = at("out");
  const auto expect = [](sparclResult_t result, const std::string& text) {
    EXPECT_EQ(result, sparclInvalidArgument);
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr(text));
  };
  expect(sparclFileDiff(nullptr, base.c_str(), out.c_str(), nullptr, nullptr),
         "sparclFileDiff: base is NULL");
  expect(sparclFileApply(base.c_str(), nullptr, out.c_str(), nullptr, nullptr), "delta is NULL");
  expect(sparclFileVerify(nullptr, nullptr, nullptr), "path is NULL");
  expect(sparclFileCompose(nullptr, 1, nullptr, out.c_str(), nullptr, nullptr), "deltas is NULL");
  const char* const none[] = {nullptr};
  expect(sparclFileCompose(none, 0, nullptr, out.c_str(), nullptr, nullptr), "count is 0");
  expect(sparclFileCompose(none, 1, nullptr, out.c_str(), nullptr, nullptr),
         "a path of deltas is NULL");
  expect(sparclFileInvert(base.c_str(), base.c_str(), nullptr, nullptr, nullptr), "output is NULL");
  expect(sparclFileConvert(base.c_str(), nullptr, out.c_str(), nullptr, nullptr, nullptr, nullptr),
         "to is NULL");
  expect(sparclFileHash(nullptr, sparclFileHashState, nullptr, nullptr), "path is NULL");
  expect(sparclFileSign(nullptr, base.c_str(), nullptr, nullptr), "path is NULL");
  expect(sparclFileSign(base.c_str(), nullptr, nullptr, nullptr), "key is NULL");
  expect(sparclFileVerifySignature(nullptr, base.c_str(), nullptr, nullptr), "path is NULL");
  expect(sparclFileVerifySignature(base.c_str(), nullptr, nullptr, nullptr), "trust is NULL");
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  expect(sparclFileAdvise(base.c_str(), nullptr, 1, 2, nullptr, &advice), "second is NULL");
}

TEST_F(FileArguments, OptionsOutOfRangeAreNamed) {
  const auto expect = [&](auto change, const std::string& text) {
    sparclUpdateOptions_t selection = SPARCL_UPDATE_OPTIONS_INITIALIZER;
    sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
    options.selection = &selection;
    change(options, selection);
    EXPECT_EQ(diff("s0", "s1", "out", &options), sparclInvalidArgument) << text;
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr(text));
  };
  expect([](auto& options, auto&) { options.mode = "fast"; },
         "options.mode is 'fast': expected one of auto, ");
  expect([](auto& options, auto&) { options.threads = -1; }, "options.threads = -1");
  expect([](auto& options, auto&) { options.only_count = 2; }, "options.only_count = 2");
  expect([](auto& options, auto&) { options.side_files = static_cast<sparclFileSideFiles_t>(9); },
         "options.side_files is 9");
  expect([](auto&,
            auto& selection) { selection.select = static_cast<decltype(selection.select)>(77); },
         "options.selection: ");
  expect([](auto&, auto& selection) { selection.adopt = sparclOn; }, "options.selection->adopt");
  expect([](auto&, auto& selection) { selection.algorithm = "chain"; }, "of broadcasts");
  expect([](auto&, auto& selection) { selection.verify = sparclVerifyFull; }, "of broadcasts");
  static const char* const glob = "no_such_tensor";
  expect(
      [](auto& options, auto&) {
        options.only = &glob;
        options.only_count = 1;
      },
      "options.only 'no_such_tensor' names no tensor");
  expect_no_output("out");
}

TEST_F(FileArguments, SizesOfStructsAreChecked) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  const std::string path = at("delta");
  const auto verify = [&](const sparclFileOptions_t* options, sparclFileReport_t* report) {
    return sparclFileVerify(path.c_str(), options, report);
  };
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{4}, std::size_t{12}, std::size_t{1} << 20}) {
    sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
    options.size = size;
    EXPECT_EQ(verify(&options, nullptr), sparclInvalidArgument) << size;
    sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
    report.size = size;
    EXPECT_EQ(verify(nullptr, &report), sparclInvalidArgument) << size;
    sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
    advice.size = size;
    EXPECT_EQ(sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 1, 2, nullptr, &advice),
              sparclInvalidArgument);
  }
  // A program of an older header has fewer fields: those beyond stay as they are.
  sparclFileReport_t older = SPARCL_FILE_REPORT_INITIALIZER;
  older.size = offsetof(sparclFileReport_t, bytes);
  older.bytes = 77;
  EXPECT_EQ(verify(nullptr, &older), sparclSuccess);
  EXPECT_EQ(older.elements, kElements + 64);
  EXPECT_EQ(older.bytes, 77u);
  // One of a newer header has more: what it sets there is refused, what it leaves at 0 is not.
  struct Newer {
    sparclFileOptions_t known = SPARCL_FILE_OPTIONS_INITIALIZER;
    std::uint64_t more = 0;
  } newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(verify(&newer.known, nullptr), sparclSuccess);
  newer.more = 1;
  EXPECT_EQ(verify(&newer.known, nullptr), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("newer"));
}

TEST_F(FileArguments, AnEmptyPathIsNoFile) {
  ASSERT_EQ(diff("s0", "s1", "delta"), sparclSuccess);
  const std::string base = at("s0"), delta = at("delta"), out = at("out");
  const auto expect = [](sparclResult_t result, sparclResult_t expected, const std::string& text) {
    EXPECT_EQ(result, expected);
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr(text));
  };
  const std::string no_input = ": cannot be opened: No such file";
  const std::string no_output = "the name of the output is empty";
  expect(sparclFileHash("", sparclFileHashState, nullptr, nullptr), sparclSystemError, no_input);
  expect(sparclFileVerify("", nullptr, nullptr), sparclSystemError, no_input);
  expect(sparclFileDiff(base.c_str(), "", out.c_str(), nullptr, nullptr), sparclSystemError,
         no_input);
  expect(sparclFileDiff(base.c_str(), base.c_str(), "", nullptr, nullptr), sparclInvalidArgument,
         no_output);
  expect(sparclFileApply(base.c_str(), delta.c_str(), "", nullptr, nullptr), sparclInvalidArgument,
         no_output);
  expect_no_output("out");
}

}  // namespace
}  // namespace sparcl::test
