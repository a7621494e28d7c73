#include "tests/mismatch/top_k_rows.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

MismatchRow top_k_row(const char* name, void (*change)(Arguments&, Extras&, int),
                      sparclResult_t expected, std::vector<std::string> texts) {
  return {name, Operation::kTopK, Operation::kTopK, Who::kAny, change, expected, std::move(texts)};
}

// The odd rank's options are others.
#define SPARCL_OPTION_ROW(name, field, value, ...)                                  \
  top_k_row(                                                                        \
      name,                                                                         \
      [](Arguments& a, Extras& extras, int) {                                       \
        extras.top_k_options.field = (decltype(extras.top_k_options.field))(value); \
        a.top_k_options = &extras.top_k_options;                                    \
      },                                                                            \
      __VA_ARGS__)

std::vector<MismatchRow> option_rows() {
  using Texts = std::vector<std::string>;
  return {
      SPARCL_OPTION_ROW("mode selected", mode, sparclTopKSelected, kNo,
                        Texts{"differ in their options", "float32, sum, mode selected)",
                              "float32, sum, mode union)"}),
      SPARCL_OPTION_ROW("mode global", mode, sparclTopKGlobal, kNo,
                        Texts{"differ in their options", "float32, sum, mode global)",
                              "float32, sum, mode union)"}),
      SPARCL_OPTION_ROW("no mode", mode, 3, kBad, Texts{"options.mode = 3 is no sparclTopKMode_t"}),
      SPARCL_OPTION_ROW(
          "wire", wire, 1, kNo,
          Texts{"differ in their options", "float32, sum, wire 1)", "float32, sum, wire 0)"}),
      SPARCL_OPTION_ROW(
          "scaled wire", wire, 2, kNo,
          Texts{"differ in their options", "float32, sum, wire 2)", "float32, sum, wire 0)"}),
      SPARCL_OPTION_ROW(
          "wire of 2 bits", wire, 4, kNo,
          Texts{"differ in their options", "float32, sum, wire 4)", "float32, sum, wire 0)"}),
      SPARCL_OPTION_ROW("no wire", wire, 5, kBad, Texts{"options.wire = 5 is no sparclWire_t"}),
      SPARCL_OPTION_ROW("determinism", determinism, sparclDeterminismRuns, kNo,
                        Texts{"differ in their options", "float32, sum, determinism runs)",
                              "float32, sum, determinism canonical)"}),
      SPARCL_OPTION_ROW("the default determinism by name", determinism, sparclDeterminismCanonical,
                        sparclSuccess, Texts{}),
      SPARCL_OPTION_ROW("another guess of the threshold", reuse_threshold, 1, sparclSuccess,
                        Texts{}),
      SPARCL_OPTION_ROW("no guess of the threshold", reuse_threshold, 3, kBad,
                        Texts{"options.reuse_threshold = 3 is no sparclToggle_t"}),
      SPARCL_OPTION_ROW("no determinism", determinism, 9, kBad, Texts{"options.determinism = 9"}),
      SPARCL_OPTION_ROW("no algorithm", algorithm, "fast", kBad,
                        Texts{"options.algorithm = 'fast'"}),
      SPARCL_OPTION_ROW("an algorithm that the mode does not heed", algorithm, "doubling",
                        sparclSuccess, Texts{}),
      SPARCL_OPTION_ROW("options without a size", size, 0, kBad,
                        Texts{"options.size is 0: expected "}),
      SPARCL_OPTION_ROW("options of an older version", size, 2 * sizeof(std::size_t), sparclSuccess,
                        Texts{}),
      top_k_row("options NULL", [](Arguments& a, Extras&, int) { a.top_k_options = nullptr; },
                sparclSuccess, {}),
  };
}
#undef SPARCL_OPTION_ROW

std::vector<MismatchRow> feedback_rows() {
  return {
      top_k_row("no feedback", [](Arguments& a, Extras&, int) { a.feedback = nullptr; },
                sparclSuccess, {}),
      top_k_row("a feedback of another count",
                [](Arguments& a, Extras& extras, int) {
                  a.feedback = extras.feedback_of(kTopKCount + 1, sparclFloat32);
                },
                kBad, {"the feedback is of 701 elements of float32, the call of 700 of float32"}),
      top_k_row("a feedback of another type",
                [](Arguments& a, Extras& extras, int) {
                  a.feedback = extras.feedback_of(kTopKCount, sparclBfloat16);
                },
                kBad, {"the feedback is of 700 elements of bfloat16, the call of 700 of float32"}),
      top_k_row("a count that is not the feedback's",
                [](Arguments& a, Extras&, int) { a.count = 699; }, kBad,
                {"the feedback is of 700 elements of float32, the call of 699 of float32"}),
  };
}

std::vector<MismatchRow> top_k_argument_rows() {
  return {
      top_k_row("count",
                [](Arguments& a, Extras&, int) {
                  a.count = 699;
                  a.feedback = nullptr;
                },
                kNo, {"differ in their counts", "count 699,", "count 700,"}),
      top_k_row(
          "a count that no array has",
          [](Arguments& a, Extras&, int) {
            a.count = SIZE_MAX;
            a.feedback = nullptr;
          },
          kBad,
          {"count is 18446744073709551615: no array in memory has so many elements of 4 bytes"}),
      top_k_row(
          "a count whose bytes are none",
          [](Arguments& a, Extras&, int) {
            a.count = std::size_t{1} << 62;
            a.feedback = nullptr;
          },
          kBad,
          {"count is 4611686018427387904: no array in memory has so many elements of 4 bytes"}),
      top_k_row("count, with a feedback of it",
                [](Arguments& a, Extras& extras, int) {
                  a.count = 699;
                  a.feedback = extras.feedback_of(699, sparclFloat32);
                },
                kNo, {"differ in their counts", "count 699,", "count 700,"}),
      top_k_row("k", [](Arguments& a, Extras&, int) { a.k = 10; }, kNo,
                {"differ in their options", "float32, sum, k 10)", "float32, sum, k 9)"}),
      top_k_row("k 0", [](Arguments& a, Extras&, int) { a.k = 0; }, kNo,
                {"differ in their options", "float32, sum, k 0)", "float32, sum, k 9)"}),
      top_k_row("a k beyond the count", [](Arguments& a, Extras&, int) { a.k = SIZE_MAX; }, kBad,
                {"k is 18446744073709551615, but the array has 700 elements"}),
      top_k_row("a type as wide",
                [](Arguments& a, Extras&, int) {
                  a.datatype = sparclInt32;
                  a.feedback = nullptr;
                },
                kNo, {"differ in their data types", "int32, sum)", "float32, sum)"}),
      top_k_row("a narrower type, with a feedback of it",
                [](Arguments& a, Extras& extras, int) {
                  a.datatype = sparclFloat16;
                  a.feedback = extras.feedback_of(kTopKCount, sparclFloat16);
                },
                kNo, {"differ in their data types", "float16, sum)", "float32, sum)"}),
      top_k_row("a type without top-k",
                [](Arguments& a, Extras&, int) {
                  a.datatype = sparclInt16;
                  a.feedback = nullptr;
                },
                sparclUnsupported, {"top-k of int16 is not there"}),
      top_k_row("no type",
                [](Arguments& a, Extras&, int) { a.datatype = static_cast<sparclDataType_t>(99); },
                kBad, {"99 is no data type"}),
      top_k_row("a mean", [](Arguments& a, Extras&, int) { a.op = sparclAvg; }, kNo,
                {"differ in their reductions", "float32, avg)", "float32, sum)"}),
      top_k_row("op", [](Arguments& a, Extras&, int) { a.op = sparclMax; }, kBad,
                {"op: sparclSum or sparclAvg"}),
      top_k_row("no op", [](Arguments& a, Extras&, int) { a.op = static_cast<sparclRedOp_t>(7); },
                kBad, {"7 is no reduction"}),
      top_k_row("sendbuff NULL", [](Arguments& a, Extras&, int) { a.send = nullptr; }, kBad,
                {"sendbuff is NULL"}),
      top_k_row("recvbuff NULL", [](Arguments& a, Extras&, int) { a.receive = nullptr; }, kBad,
                {"recvbuff is NULL"}),
      top_k_row("in place",
                [](Arguments& a, Extras& extras, int) {
                  const auto* values = static_cast<const float*>(a.send);
                  extras.values.assign(values, values + a.count);
                  std::copy(extras.values.begin(), extras.values.end(),
                            static_cast<float*>(a.receive));
                  a.send = a.receive;
                },
                sparclSuccess, {}),
  };
}

}  // namespace

std::vector<MismatchRow> top_k_rows() {
  std::vector<MismatchRow> all = option_rows();
  for (std::vector<MismatchRow>& more : std::vector{feedback_rows(), top_k_argument_rows()})
    std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace sparcl::test
