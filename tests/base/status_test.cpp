#include "src/base/status.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

#include "include/sparcl/sparcl.h"

namespace sparcl {
namespace {

TEST(Status, IsSuccessByDefault) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kSuccess);
  EXPECT_EQ(status.message(), "");
}

TEST(Status, KeepsCodeScopeAndMessageUnderAPrefix) {
  const Status status(Code::kTimeout, "no answer", Scope::kComm);
  EXPECT_FALSE(status.ok());
  const Status named = status.with_prefix("rank 2: ");
  EXPECT_EQ(named.code(), Code::kTimeout);
  EXPECT_EQ(named.scope(), Scope::kComm);
  EXPECT_EQ(named.message(), "rank 2: no answer");
  EXPECT_TRUE(Status().with_prefix("rank 2: ").ok());
  EXPECT_EQ(Status().with_prefix("rank 2: ").message(), "");
}

TEST(Status, HasANameAndATextForEachPublicResult) {
  const sparclResult_t results[] = {sparclSuccess,
                                    sparclUnhandledCudaError,
                                    sparclSystemError,
                                    sparclInternalError,
                                    sparclInvalidArgument,
                                    sparclInvalidUsage,
                                    sparclRemoteError,
                                    sparclInProgress,
                                    sparclTimeout,
                                    sparclMismatch,
                                    sparclCorrupt,
                                    sparclUnsupported,
                                    sparclOutOfMemory,
                                    sparclWrongBase,
                                    sparclUnauthorized,
                                    sparclTruncated,
                                    sparclStale};
  std::set<std::string> names;
  std::set<std::string> texts;
  for (const sparclResult_t result : results) {
    names.insert(code_name(static_cast<Code>(result)));
    texts.insert(code_text(static_cast<Code>(result)));
  }
  EXPECT_EQ(names.size(), std::size(results));
  EXPECT_EQ(texts.size(), std::size(results));
  EXPECT_EQ(names.count("unknown result"), 0u);
  EXPECT_STREQ(code_name(static_cast<Code>(sparclWrongBase)), "sparclWrongBase");
}

TEST(Status, NamesUnknownCodesWithoutFailing) {
  EXPECT_STREQ(code_name(static_cast<Code>(-1)), "unknown result");
  EXPECT_STREQ(code_text(static_cast<Code>(1000)), "unknown result code");
}

TEST(Result, HoldsAValueOrAnError) {
  Result<std::string> good = std::string("text");
  ASSERT_TRUE(good.ok());
  EXPECT_TRUE(good.status().ok());
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4u);

  const Result<std::string> bad = Status(Code::kCorrupt, "why");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::kCorrupt);
  EXPECT_EQ(bad.status().message(), "why");
}

TEST(Result, CarriesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> taken = std::move(*result);
  EXPECT_EQ(*taken, 7);
}

Status pass_on(const Status& status, bool& reached_end) {
  SPARCL_RETURN_IF_ERROR(status);
  reached_end = true;
  return {};
}

TEST(Status, ReturnIfErrorReturnsErrorsOnly) {
  bool reached_end = false;
  EXPECT_EQ(pass_on(Status(Code::kTruncated, "x"), reached_end).code(), Code::kTruncated);
  EXPECT_FALSE(reached_end);
  EXPECT_TRUE(pass_on(Status(), reached_end).ok());
  EXPECT_TRUE(reached_end);
}

}  // namespace
}  // namespace sparcl
