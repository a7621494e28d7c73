#include "src/sparse/selection/feedback.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "kernels/kernel_set.hpp"
#include "src/base/number.hpp"
#include "src/sparse/selection/feedback_file.hpp"
#include "tests/model/model_support.hpp"

namespace sparcl::sparse {
namespace {

void set(Feedback& feedback, std::uint64_t i, double value) {
  store_number(feedback.residual_type(), value,
               feedback.residual() + i * element_bytes(feedback.residual_type()));
}

TEST(Feedback, MeasuresResidualsOfEveryType) {
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kFloat16,
                              DataType::kBfloat16, DataType::kFloat8e5m2, DataType::kInt32,
                              DataType::kUint32, DataType::kInt64, DataType::kUint64}) {
    Result<Feedback> feedback = Feedback::create(19, type);
    ASSERT_TRUE(feedback.ok()) << info(type).name;
    EXPECT_EQ(feedback->residual_l2(), 0);
    set(*feedback, 0, 6);
    set(*feedback, 9, 2);
    set(*feedback, 18, kernels::numbers_of(type) == kernels::Numbers::kUnsigned ? 3 : -3);
    EXPECT_EQ(feedback->residual_l2(), 7) << info(type).name;
    ASSERT_TRUE(feedback->reset().ok());
    EXPECT_EQ(feedback->residual_l2(), 0) << info(type).name;
  }
}

TEST(Feedback, WhatCameBackIsNotDropped) {
  Result<Feedback> feedback = Feedback::create(2, DataType::kBfloat16);
  set(*feedback, 0, 3);  // was not selected
  set(*feedback, 1, 4);  // was sent, but not kept
  EXPECT_EQ(feedback->dropped_l2(feedback->residual_l2()), 0) << "no call yet";
  feedback->stats.calls = 1;
  feedback->stats.returned_squares = 16;
  EXPECT_EQ(feedback->dropped_l2(feedback->residual_l2()), 3);
}

TEST(Feedback, TheThresholdOutlivesAFile) {
  const test::TempFolder folder;
  Result<Feedback> feedback = Feedback::create(2, DataType::kFloat16);
  feedback->least = std::bit_cast<std::uint32_t>(2.5F);
  feedback->stats.calls = 5;
  ASSERT_TRUE(save_feedback(*feedback, folder / "residual").ok());
  const Result<Feedback> loaded = load_feedback(folder / "residual");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->least, feedback->least);
  EXPECT_EQ(loaded->threshold(), 2.5);
  EXPECT_EQ(loaded->stats.calls, 0U);
  ASSERT_TRUE(feedback->reset().ok());
  EXPECT_EQ(feedback->least, 0U);
  EXPECT_EQ(feedback->threshold(), 0);
}

}  // namespace
}  // namespace sparcl::sparse
