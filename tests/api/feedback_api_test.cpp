// Error feedback's handles as users reach them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "sparcl/sparcl.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/sanitizer_allocator.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

// The view is of memory that the feedback owns and nobody else writes: a test may.
template <class T>
std::span<T> writable(Feedback& feedback) {
  const std::span<const T> residual = feedback.residual<T>();
  return {const_cast<T*>(residual.data()), residual.size()};
}

Feedback some_feedback() {
  Feedback feedback = Feedback::of<bfloat16>(1000);
  float next = -3.0F;
  for (float& value : writable<float>(feedback)) value = next += 0.25F;
  writable<float>(feedback)[7] = std::numeric_limits<float>::infinity();
  writable<float>(feedback)[8] = -0.0F;
  return feedback;
}

template <class T>
std::string bytes_of(const Feedback& feedback) {
  const std::span<const T> residual = feedback.residual<T>();
  return {reinterpret_cast<const char*>(residual.data()), residual.size_bytes()};
}

std::string last_error() { return sparclGetLastError(nullptr); }

TEST(FeedbackApi, BeginsWithZerosOfTheResidualsType) {
  const struct {
    sparclDataType_t datatype, residual;
  } rows[] = {{sparclFloat64, sparclFloat64},    {sparclFloat32, sparclFloat32},
              {sparclFloat16, sparclFloat32},    {sparclBfloat16, sparclFloat32},
              {sparclFloat8e4m3, sparclFloat32}, {sparclInt32, sparclInt32},
              {sparclInt64, sparclInt64}};
  for (const auto& row : rows) {
    Feedback feedback(33, row.datatype);
    const void* residual = nullptr;
    std::size_t count = 0;
    sparclDataType_t datatype = sparclBool;
    ASSERT_EQ(sparclFeedbackGetResidual(feedback.get(), &residual, &count, &datatype),
              sparclSuccess);
    EXPECT_EQ(count, 33U);
    EXPECT_EQ(datatype, row.residual) << row.datatype;
    const std::size_t width = row.residual == sparclFloat64 || row.residual == sparclInt64 ? 8 : 4;
    const auto* bytes = static_cast<const unsigned char*>(residual);
    EXPECT_THAT(std::vector<unsigned char>(bytes, bytes + 33 * width), Each(0));
  }
  const Feedback empty = Feedback::of<float>(0);
  EXPECT_TRUE(empty.residual<float>().empty());
}

TEST(FeedbackApi, RefusesWhatItCannotHold) {
  sparclFeedback_t feedback = nullptr;
  EXPECT_EQ(sparclFeedbackCreate(&feedback, 10, sparclInt16), sparclUnsupported);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("sparclFeedbackCreate"), HasSubstr("int16")));
  EXPECT_EQ(sparclFeedbackCreate(&feedback, 10, static_cast<sparclDataType_t>(99)),
            sparclInvalidArgument);
  EXPECT_EQ(sparclFeedbackCreate(&feedback, std::numeric_limits<std::size_t>::max(), sparclFloat32),
            sparclInvalidArgument);
  EXPECT_THAT(last_error(), HasSubstr("2^44"));
  EXPECT_EQ(sparclFeedbackCreate(nullptr, 10, sparclFloat32), sparclInvalidArgument);
  EXPECT_EQ(sparclFeedbackLoad(&feedback, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclFeedbackSave(nullptr, "x"), sparclInvalidArgument);
  EXPECT_EQ(sparclFeedbackReset(nullptr), sparclInvalidArgument);
  EXPECT_EQ(feedback, nullptr);
  ASSERT_EQ(sparclFeedbackCreate(&feedback, 10, sparclFloat32), sparclSuccess);
  EXPECT_EQ(sparclFeedbackSave(feedback, ""), sparclInvalidArgument);
  EXPECT_THAT(last_error(), HasSubstr("the name of the output is empty"));
  EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclSuccess);
  EXPECT_EQ(sparclFeedbackDestroy(nullptr), sparclSuccess);
}

TEST(FeedbackApi, SaysHowMuchMemoryItWanted) {
  if (kAllocatorAborts) GTEST_SKIP() << "this allocator aborts where memory is short";
  sparclFeedback_t feedback = nullptr;
  EXPECT_EQ(sparclFeedbackCreate(&feedback, std::size_t{1} << 44, sparclFloat64),
            sparclOutOfMemory);
  EXPECT_EQ(last_error(),
            "sparclFeedbackCreate: no memory for a residual of 140737488355328 bytes: "
            "17592186044416 elements of float64");
  EXPECT_EQ(feedback, nullptr);
}

TEST(FeedbackApi, ComesBackBitForBit) {
  const TempFolder folder;
  const std::string path = folder / "rank0.safetensors";
  const Feedback saved = some_feedback();
  saved.save(path);
  saved.save(path);  // replaces
  EXPECT_EQ(folder.count(), 1U);
  const Feedback loaded = Feedback::load(path);
  EXPECT_EQ(bytes_of<float>(loaded), bytes_of<float>(saved));
  EXPECT_THROW((void)loaded.residual<double>(), Error);

  Feedback wide = Feedback::of<std::int64_t>(3);
  writable<std::int64_t>(wide)[2] = std::numeric_limits<std::int64_t>::min();
  wide.save(path);
  EXPECT_EQ(bytes_of<std::int64_t>(Feedback::load(path)), bytes_of<std::int64_t>(wide));
  Feedback::of<float>(0).save(path);
  EXPECT_TRUE(Feedback::load(path).residual<float>().empty());
}

TEST(FeedbackApi, StatsAndResetKnowTheResidual) {
  Feedback feedback = Feedback::of<float>(11);
  writable<float>(feedback)[0] = 3;
  writable<float>(feedback)[10] = -4;
  EXPECT_EQ(feedback.stats().residual_l2, 5.0);
  sparclFeedbackStats_t old =
      SPARCL_FEEDBACK_STATS_INITIALIZER;  // of a program that knows less of the struct
  old.size = offsetof(sparclFeedbackStats_t, threshold);
  old.threshold = 77;
  EXPECT_EQ(sparclFeedbackStats(feedback.get(), &old), sparclSuccess);
  EXPECT_EQ(old.residual_l2, 5.0);
  EXPECT_EQ(old.threshold, 77);
  EXPECT_EQ(old.size, offsetof(sparclFeedbackStats_t, threshold));
  old.size = 0;
  EXPECT_EQ(sparclFeedbackStats(feedback.get(), &old), sparclInvalidArgument);
  EXPECT_EQ(sparclFeedbackStats(feedback.get(), nullptr), sparclInvalidArgument);
  feedback.reset();
  EXPECT_EQ(feedback.stats().residual_l2, 0.0);
}

sparclResult_t load(const std::string& path) {
  sparclFeedback_t feedback = nullptr;
  const sparclResult_t result = sparclFeedbackLoad(&feedback, path.c_str());
  EXPECT_EQ(feedback == nullptr, result != sparclSuccess);
  sparclFeedbackDestroy(feedback);
  return result;
}

TEST(FeedbackApi, RefusesEveryFlippedByteAndEveryCut) {
  const TempFolder folder;
  const std::string path = folder / "residual";
  Feedback feedback = Feedback::of<float16>(40);
  writable<float>(feedback)[3] = 1.5F;
  feedback.save(path);
  const std::string whole = read_text(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
    write_text(path, damaged);
    EXPECT_NE(load(path), sparclSuccess) << "byte " << i;
    EXPECT_THAT(last_error(), AllOf(HasSubstr("sparclFeedbackLoad"), HasSubstr(path)));
    write_text(path, whole.substr(0, i));
    EXPECT_NE(load(path), sparclSuccess) << i << " bytes";
    EXPECT_THAT(last_error(), HasSubstr(path));
  }
  std::string damaged = whole;
  damaged.back() = '\1';
  write_text(path, damaged);
  EXPECT_EQ(load(path), sparclCorrupt);
  EXPECT_THAT(last_error(), HasSubstr("damaged"));
}

TEST(FeedbackApi, RefusesFilesOfAnotherKind) {
  const TempFolder folder;
  EXPECT_EQ(load(folder / "none"), sparclSystemError);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("/none"), HasSubstr("No such file")));
  EXPECT_EQ(load(folder.path().string()), sparclInvalidArgument);
  const std::string path = folder / "file";
  for (const char* text : {"", "root:x:0:0:root:/root:/bin/bash\n"}) {
    write_text(path, text);
    EXPECT_EQ(load(path), sparclCorrupt);  // what begins as no safetensors file does
  }
  write_text(path,
             file_of(R"({"residual":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  EXPECT_EQ(load(path), sparclInvalidArgument);
  EXPECT_THAT(last_error(), HasSubstr("no feedback"));
  const auto with = [&](const std::string& metadata, const std::string& tensor) {
    write_text(path, file_of("{\"__metadata__\":{" + metadata + "},\"" + tensor +
                                 R"(":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})",
                             "abcd"));
    return load(path);
  };
  const std::string rest = R"(,"threshold_key":"0","xxh3":"00")";
  EXPECT_EQ(with(R"("sparcl_feedback":"2")", "residual"), sparclUnsupported);
  EXPECT_EQ(with(R"("sparcl_feedback":"1")", "residual"), sparclCorrupt);
  EXPECT_EQ(with(R"("sparcl_feedback":"1","datatype":"quaternion")" + rest, "residual"),
            sparclCorrupt);
  EXPECT_THAT(last_error(), HasSubstr("'quaternion' is no data type"));
  EXPECT_EQ(with(R"("sparcl_feedback":"1","datatype":"float32")" + rest, "other"), sparclCorrupt);
  EXPECT_EQ(with(R"("sparcl_feedback":"1","datatype":"float32")" + rest, "residual"),
            sparclCorrupt);
  EXPECT_THAT(last_error(), HasSubstr("the residual of float32 is float32, not int32"));
  EXPECT_EQ(with(R"("sparcl_feedback":"1","datatype":"int8")" + rest, "residual"), sparclCorrupt);
  EXPECT_EQ(with(R"("sparcl_feedback":"1","datatype":"int32","threshold_key":"-1","xxh3":"00")",
                 "residual"),
            sparclCorrupt);
  EXPECT_THAT(last_error(), HasSubstr("'-1' is no number"));
}

TEST(FeedbackApi, AFailedSaveLeavesWhatWasThere) {
  const TempFolder folder;
  const std::string path = folder / "residual";
  some_feedback().save(path);
  const std::string before = read_text(path);
  Feedback large = Feedback::of<float>(1 << 20);

  // A full disk: the process may write no files of more than 64 KiB.
  rlimit limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{64 << 10, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const sparclResult_t result = sparclFeedbackSave(large.get(), path.c_str());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(result, sparclSystemError);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("sparclFeedbackSave"), HasSubstr(path),
                                  HasSubstr("at byte 65536 failed")));
  EXPECT_EQ(read_text(path), before);
  EXPECT_EQ(folder.count(), 1U);

  EXPECT_EQ(sparclFeedbackSave(large.get(), (folder / "missing/residual").c_str()),
            sparclSystemError);
  EXPECT_THAT(last_error(), HasSubstr("missing/residual"));
  EXPECT_EQ(sparclFeedbackSave(large.get(), "/dev/full"), sparclInvalidArgument);
  EXPECT_THAT(last_error(), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace sparcl::test
