// The callbacks of file.h: progress that reaches its total, cancellation at every look, and notes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <locale.h>

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "file_calls.hpp"
#include "sparcl/file.hpp"

namespace sparcl::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Progress = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// A phase ends where its total is reached, or where the next look has done less.
std::vector<Progress> phases(const Progress& progress) {
  std::vector<Progress> made;
  for (const auto& look : progress) {
    const bool goes_on = !made.empty() && made.back().back().first < made.back().back().second &&
                         look.first >= made.back().back().first &&
                         look.second == made.back().back().second;
    if (!goes_on) made.emplace_back();
    made.back().push_back(look);
  }
  return made;
}

class FileWatching : public FileCalls {
 protected:
  struct Call {
    std::string name;
    std::function<sparclResult_t(Told&)> run;  // to "out", if it writes
  };

  void SetUp() override {
    write_content(at("other"), checkpoint(1, "bias"));
    sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
    options.mode = "verbatim";
    ASSERT_EQ(diff("s0", "s1", "delta", &options), sparclSuccess);
    ASSERT_EQ(diff("s0", "other", "schema_delta"), sparclSuccess);
    ASSERT_EQ(sparclFileConvert(at("delta").c_str(), nullptr, at("coo").c_str(), "coo",
                                at("s0").c_str(), nullptr, nullptr),
              sparclSuccess);
  }

  // `call(path of name, ..., options)` as a Call.
  template <class Make>
  Call call(std::string name, Make make) const {
    return {std::move(name), [make](Told& told) {
              sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
              listen(options, told);
              return make(&options);
            }};
  }
  Call diff_call(const std::string& target) const {
    return {"diff " + target, [this, target](Told& told) {
              sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
              listen(options, told);
              return diff("s0", target, "out", &options);
            }};
  }
  Call apply_call(const std::string& delta) const {
    return call("apply " + delta, [this, delta](const sparclFileOptions_t* options) {
      return sparclFileApply(at("s0").c_str(), at(delta).c_str(), at("out").c_str(), options,
                             nullptr);
    });
  }
  Call compose_call(bool with_base) const {
    return call(with_base ? "compose on a base" : "compose",
                [this, with_base](const sparclFileOptions_t* options) {
                  const std::string base = at("s0"), path = at("delta");
                  const char* const deltas[] = {path.c_str()};
                  return sparclFileCompose(deltas, 1, with_base ? base.c_str() : nullptr,
                                           at("out").c_str(), options, nullptr);
                });
  }
  Call convert_call(const std::string& input, const std::string& to) const {
    return call("convert " + input + " to " + to,
                [this, input, to](const sparclFileOptions_t* options) {
                  return sparclFileConvert(at(input).c_str(), nullptr, at("out").c_str(),
                                           to.c_str(), at("s0").c_str(), options, nullptr);
                });
  }
  std::vector<Call> writing_calls() const {
    return {diff_call("s1"),
            diff_call("other"),
            apply_call("delta"),
            apply_call("schema_delta"),
            compose_call(false),
            compose_call(true),
            call("invert",
                 [this](const sparclFileOptions_t* options) {
                   return sparclFileInvert(at("s0").c_str(), at("delta").c_str(), at("out").c_str(),
                                           options, nullptr);
                 }),
            convert_call("delta", "coo"),
            convert_call("delta", "sparcl"),
            convert_call("coo", "sparcl"),
            convert_call("coo", "coo_zstd")};
  }
  std::vector<Call> reading_calls() const {
    std::vector<Call> calls;
    calls.push_back(call("verify", [this](const sparclFileOptions_t* options) {
      return sparclFileVerify(at("delta").c_str(), options, nullptr);
    }));
    for (const auto kind :
         {sparclFileHashState, sparclFileHashXxh3, sparclFileHashSha256, sparclFileHashIdentity}) {
      calls.push_back(call("hash", [this, kind](const sparclFileOptions_t* options) {
        return sparclFileHash(at("s0").c_str(), kind, options, nullptr);
      }));
    }
    calls.push_back(call("advise", [this](const sparclFileOptions_t* options) {
      sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
      return sparclFileAdvise(at("s0").c_str(), at("s1").c_str(), 1, 2, options, &advice);
    }));
    return calls;
  }
  // How many looks at the progress an uncancelled call has.
  std::size_t count_looks(const Call& call) const {
    Told told;
    EXPECT_EQ(call.run(told), sparclSuccess) << call.name << ": " << sparclGetLastError(nullptr);
    EXPECT_FALSE(told.progress.empty()) << call.name;
    for (const Progress& phase : phases(told.progress))
      EXPECT_EQ(phase.back().first, phase.back().second) << call.name;
    return told.progress.size();
  }
  void expect_cancelled(const Call& call, std::size_t look) const {
    Told told;
    told.answer = sparclTimeout;
    told.answer_from = look;
    EXPECT_EQ(call.run(told), sparclTimeout) << call.name << " at look " << look;
    EXPECT_EQ(told.progress.size(), look) << call.name << ": a cancelled call asks no more";
    EXPECT_THAT(sparclGetLastError(nullptr), HasSubstr("cancelled")) << call.name;
    expect_no_temporary();
  }
};

TEST_F(FileWatching, AnyLookAtTheProgressCancelsAndKeepsTheOutput) {
  for (const Call& call : writing_calls()) {
    const std::size_t looks = count_looks(call);
    for (std::size_t look = 1; look <= looks; ++look) {
      write_content(at("out"), "before");
      expect_cancelled(call, look);
      EXPECT_EQ(content_of(at("out")), "before") << call.name << " at look " << look;
    }
  }
}

TEST_F(FileWatching, AnyLookAtTheProgressCancelsReading) {
  for (const Call& call : reading_calls()) {
    const std::size_t looks = count_looks(call);
    for (std::size_t look = 1; look <= looks; ++look) expect_cancelled(call, look);
  }
  Told told;
  told.answer = static_cast<sparclResult_t>(1234);
  EXPECT_EQ(reading_calls().front().run(told), sparclInvalidArgument);
}

TEST_F(FileWatching, LargeTensorsAreWrittenInPieces) {
  constexpr std::size_t kBytes = std::size_t{80} << 20;
  std::string header = R"({"big":{"dtype":"U8","shape":[83886080],"data_offsets":[0,83886080]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file += header + std::string(kBytes, '\1');
  write_content(at("big0"), file);
  file.back() = '\2';
  write_content(at("big1"), file);
  ASSERT_EQ(diff("big0", "big1", "delta"), sparclSuccess) << sparclGetLastError(nullptr);
  Told told;
  sparclFileOptions_t options = SPARCL_FILE_OPTIONS_INITIALIZER;
  listen(options, told);
  ASSERT_EQ(sparclFileApply(at("big0").c_str(), at("delta").c_str(), at("out").c_str(), &options,
                            nullptr),
            sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_TRUE(content_of(at("out")) == file);
  EXPECT_GE(phases(told.progress).back().size(), 2u) << "64 MiB at most";
}

// So that an exception of the callback keeps the output.
TEST_F(FileWatching, NotesComeBeforeTheOutput) {
  for (const std::string folder : {"f0", "f1"}) {
    fs::create_directory(at(folder));
    write_content(at(folder + "/model.safetensors"), checkpoint(folder == "f0" ? 0 : 1));
    write_content(at(folder + "/stray.safetensors"), checkpoint(2));
    write_content(at(folder + "/model.safetensors.index.json"),
                  R"({"weight_map":{"weights":"model.safetensors","norm":"model.safetensors"}})");
  }
  ASSERT_EQ(diff("f0", "f1", "folder_delta"), sparclSuccess) << sparclGetLastError(nullptr);
  file::Watch watch;
  std::string seen;
  watch.on_note = [&](sparclFileNoteKind_t, const std::string& name) {
    seen = name;
    throw std::runtime_error("stopped at " + name);
  };
  const auto expect_stopped = [&](const std::string& note, const std::function<void()>& call) {
    write_content(at("out"), "before");
    EXPECT_THROW(call(), std::runtime_error) << note;
    EXPECT_EQ(seen, note);
    EXPECT_EQ(content_of(at("out")), "before") << note;
    expect_no_temporary();
  };
  expect_stopped("bias", [&] { (void)file::diff(at("s0"), at("other"), at("out"), {}, watch); });
  const std::string stray = at("f0/stray.safetensors");
  expect_stopped(stray, [&] { (void)file::diff(at("f0"), at("f0"), at("out"), {}, watch); });
  expect_stopped(stray, [&] { (void)file::apply(at("f0"), at("delta"), at("out"), watch); });
  expect_stopped(stray, [&] { (void)file::invert(at("f0"), at("delta"), at("out"), watch); });
  expect_stopped(stray,
                 [&] { (void)file::convert(at("coo"), at("out"), "deltas", at("f0"), "", watch); });
}

TEST_F(FileWatching, ANulInATensorsNameIsTold) {
  write_content(at("other"), checkpoint(1, R"(no\u0000rm)"));
  Told told;
  sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
  listen(options, told);
  ASSERT_EQ(diff("s0", "other", "delta", &options), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_THAT(told.names[sparclFileTensorAdded], ElementsAre("no\xc0\x80rm"));
  std::vector<std::string> added;
  file::Watch watch;
  watch.on_note = [&](sparclFileNoteKind_t kind, const std::string& name) {
    if (kind == sparclFileTensorAdded) added.push_back(name);
  };
  (void)file::diff(at("s0"), at("other"), at("delta"), {}, watch);
  EXPECT_THAT(added, ElementsAre(std::string("no\0rm", 5)));
}

TEST_F(FileWatching, GlobsMatchBytesInAnyLocale) {
  const locale_t utf8 = ::newlocale(LC_ALL_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) GTEST_SKIP() << "this host has no locale C.UTF-8";
  for (int step : {0, 1}) {
    std::string text = checkpoint(step, "\xc3\xa9");  // one character of two bytes
    text.back() = static_cast<char>('\x3f' + step);
    write_content(at("g" + std::to_string(step)), text);
  }
  const locale_t before = ::uselocale(utf8);
  const auto changed = [&](const char* glob) {
    sparclFileDiffOptions_t options = SPARCL_FILE_DIFF_OPTIONS_INITIALIZER;
    sparclFileReport_t report = SPARCL_FILE_REPORT_INITIALIZER;
    options.only = &glob;
    options.only_count = 1;
    return diff("g0", "g1", "delta", &options, &report) == sparclSuccess
               ? static_cast<int>(report.changed)
               : -1;
  };
  EXPECT_EQ(changed("??"), 1);
  EXPECT_EQ(changed("?"), -1);
  EXPECT_EQ(changed("w*"), 100);
  EXPECT_EQ(::uselocale(nullptr), utf8) << "the caller's";
  ::uselocale(before);
  ::freelocale(utf8);
}

}  // namespace
}  // namespace sparcl::test
