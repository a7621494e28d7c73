// What a masked all-reduce does to recvbuff outside the mask.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "thread_ranks.hpp"

namespace sparcl::test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 200'001;

struct MaskRow {
  const char* name;
  Mask mask;
};
std::vector<MaskRow> all_masks() {
  std::vector<std::uint64_t> ends = {0, 1, 65'535, 65'536, 131'072, kCount - 1};
  std::vector<MaskRow> masks;
  masks.push_back({"random", Mask::random(kCount, 0.2, 3)});
  masks.push_back({"blocks", Mask::blocks(kCount, 1'000, 0.3, 5)});
  masks.push_back({"indices", Mask::of_indices(ends, kCount)});
  masks.push_back({"none", Mask::random(kCount, 0, 1)});
  masks.push_back({"all", Mask::random(kCount, 1, 1)});
  return masks;
}

struct Way {
  bool is_in_place, has_feedback, is_blocking;
};

// T: 1 to 8 bytes, in which the number 1 is `one`, and two of them are `two`.
template <class T>
void expect_zeros_outside(sparclDataType_t type, T one, T two, T old, const Way& way) {
  for (const MaskRow& row : all_masks()) {
    const std::vector<std::uint64_t> indices = row.mask.indices();
    ThreadRanks party(2);
    std::vector<std::vector<T>> got(2);
    const auto results = party.run([&](int rank, sparclComm_t comm) {
      std::vector<T>& received = got[static_cast<std::size_t>(rank)];
      const std::vector<T> sent(kCount, one);
      received.assign(kCount, way.is_in_place ? one : old);
      sparclFeedback_t feedback = nullptr;
      if (way.has_feedback) {
        EXPECT_EQ(sparclFeedbackCreate(&feedback, kCount, type), sparclSuccess);
      }
      sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
      options.outside = sparclOutsideZero;
      const T* const from = way.is_in_place ? received.data() : sent.data();
      sparclRequest_t request = nullptr;
      sparclResult_t result =
          way.is_blocking
              ? sparclAllReduceMasked(from, received.data(), kCount, type, sparclSum,
                                      row.mask.get(), feedback, &options, comm, nullptr)
              : sparclIAllReduceMasked(from, received.data(), kCount, type, sparclSum,
                                       row.mask.get(), feedback, &options, comm, nullptr, &request);
      if (result == sparclSuccess) result = sparclWait(&request, nullptr);
      if (way.has_feedback) {  // what was not sent is not lost
        sparclFeedbackStats_t stats = SPARCL_FEEDBACK_STATS_INITIALIZER;
        EXPECT_EQ(sparclFeedbackStats(feedback, &stats), sparclSuccess);
        EXPECT_NEAR(stats.residual_l2 * stats.residual_l2,
                    static_cast<double>(kCount - indices.size()), 0.01 * kCount);
      }
      EXPECT_EQ(sparclFeedbackDestroy(feedback), sparclSuccess);
      return result;
    });
    ASSERT_THAT(results, Each(sparclSuccess)) << row.name;
    std::vector<T> expected(kCount, T{});
    for (const std::uint64_t index : indices) expected[index] = two;
    for (const std::vector<T>& each : got)
      EXPECT_EQ(std::memcmp(each.data(), expected.data(), kCount * sizeof(T)), 0) << row.name;
  }
}

TEST(MaskedOutside, ZeroClearsWhatTheMaskDoesNotHave) {
  for (const bool is_in_place : {false, true}) {
    for (const bool has_feedback : {false, true}) {
      for (const bool is_blocking : {false, true}) {
        const Way way{is_in_place, has_feedback, is_blocking};
        expect_zeros_outside<float>(sparclFloat32, 1, 2, -3, way);
        expect_zeros_outside<double>(sparclFloat64, 1, 2, -3, way);
        expect_zeros_outside<std::uint16_t>(sparclBfloat16, 0x3f80, 0x4000, 0x8000, way);
        if (!has_feedback) expect_zeros_outside<std::int8_t>(sparclInt8, 1, 2, -3, way);
      }
    }
  }
}

TEST(MaskedOutside, RanksMayDiffer) {
  const Mask mask = Mask::random(kCount, 0.5, 9);
  ThreadRanks party(3);
  std::vector<std::vector<float>> got(3);
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.outside = rank == 1 ? sparclOutsideZero : sparclOutsideKeep;
    std::vector<float>& own = got[static_cast<std::size_t>(rank)];
    own.assign(kCount, 1.0f);
    return sparclAllReduceMasked(own.data(), own.data(), kCount, sparclFloat32, sparclSum,
                                 mask.get(), nullptr, &options, comm, nullptr);
  });
  EXPECT_THAT(results, Each(sparclSuccess));
  const std::size_t inside = mask.indices().size();
  EXPECT_EQ(std::count(got[0].begin(), got[0].end(), 1.0f), kCount - inside);
  EXPECT_EQ(std::count(got[1].begin(), got[1].end(), 0.0f), kCount - inside);
  EXPECT_EQ(got[2], got[0]);
}

// A refused call clears nothing.
TEST(MaskedOutside, AnAgreedErrorLeavesTheOutput) {
  ThreadRanks party(2);
  std::vector<std::vector<float>> held(2, std::vector<float>(100, 7.0f));
  const auto results = party.run([&](int rank, sparclComm_t comm) {
    const Mask mask = Mask::random(100, 0.5, static_cast<std::uint64_t>(rank));  // another one each
    sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
    options.outside = sparclOutsideZero;
    float* const own = held[static_cast<std::size_t>(rank)].data();
    return sparclAllReduceMasked(own, own, 100, sparclFloat32, sparclSum, mask.get(), nullptr,
                                 &options, comm, nullptr);
  });
  EXPECT_THAT(results, Each(sparclMismatch));
  EXPECT_THAT(held, Each(std::vector<float>(100, 7.0f)));
}

TEST(MaskedOutside, BadValuesAreNamed) {
  ThreadRanks party(1);
  const Mask none = Mask::random(100, 0, 0);
  sparclMaskedOptions_t options = SPARCL_MASKED_OPTIONS_INITIALIZER;
  options.outside = static_cast<sparclOutside_t>(2);
  float data[100] = {};
  const auto call = [&](float* receive) {
    return sparclAllReduceMasked(data, receive, 100, sparclFloat32, sparclSum, none.get(), nullptr,
                                 &options, party.comm(0), nullptr);
  };
  EXPECT_EQ(call(data), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(party.comm(0)),
              HasSubstr("options.outside = 2 is no sparclOutside_t"));
  options.outside = sparclOutsideZero;
  EXPECT_EQ(call(nullptr), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(party.comm(0)), HasSubstr("recvbuff is NULL"));
  options.outside = sparclOutsideKeep;
  EXPECT_EQ(call(nullptr), sparclSuccess);
  options.determinism = static_cast<sparclDeterminism_t>(4);
  EXPECT_EQ(call(data), sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(party.comm(0)),
              HasSubstr("options.determinism = 4 is no sparclDeterminism_t"));
}

}  // namespace
}  // namespace sparcl::test
