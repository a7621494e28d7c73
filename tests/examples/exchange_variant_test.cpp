#include "examples/train_topk/exchange_variant.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace training {
namespace {

TEST(ExchangeVariant, NamesAreReadBack) {
  for (const char* name :
       {"dense", "mpi", "topk:0.01", "topk:0.001:forget", "mask:0.25", "mask:1:forget"})
    EXPECT_EQ(parse_variant(name).name(), name);
  for (const Variant& variant : default_variants())
    EXPECT_EQ(parse_variant(variant.name()).name(), variant.name());
}

TEST(ExchangeVariant, FeedbackIsOnUnlessForgotten) {
  EXPECT_TRUE(parse_variant("topk:0.01").has_feedback);
  EXPECT_FALSE(parse_variant("mask:0.01:forget").has_feedback);
  EXPECT_FALSE(parse_variant("dense").has_feedback);
}

TEST(ExchangeVariant, OthersAreRefused) {
  for (const char* name : {"", "sparse", "topk", "topk:", "topk:0", "topk:1.5", "topk:nan",
                           "topk:0.1x", "topk:0.1:keep", "dense:0.1", "mask:0.1:forget:forget"})
    EXPECT_THROW((void)parse_variant(name), std::invalid_argument) << name;
}

}  // namespace
}  // namespace training
