#include "tests/mismatch/sparse_sum_rows.hpp"

#include <iterator>
#include <utility>

#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

MismatchRow sum_row(const char* name, void (*change)(Arguments&, Extras&, int),
                    sparclResult_t expected, std::vector<std::string> texts) {
  return {name,     Operation::kSparseSum, Operation::kSparseSum, Who::kAny, change,
          expected, std::move(texts)};
}

std::vector<MismatchRow> what_is_summed() {
  return {
      sum_row("count", [](Arguments& a, Extras&, int) { a.count = 499; }, kNo,
              {"differ in their counts", "count 499,", "count 500,"}),
      sum_row("a count that is too small for its indices",
              [](Arguments& a, Extras&, int) { a.count = 0; }, kBad, {"but there are 0 elements"}),
      sum_row("a count that is too large", [](Arguments& a, Extras&, int) { a.count = SIZE_MAX; },
              kBad, {"indices are below 2^63"}),
      sum_row("a type as wide", [](Arguments& a, Extras&, int) { a.datatype = sparclInt32; }, kNo,
              {"differ in their data types", "int32, sum)", "float32, sum)"}),
      sum_row("a narrower type", [](Arguments& a, Extras&, int) { a.datatype = sparclBfloat16; },
              kNo, {"differ in their data types", "bfloat16, sum)", "float32, sum)"}),
      sum_row("no type",
              [](Arguments& a, Extras&, int) { a.datatype = static_cast<sparclDataType_t>(99); },
              kBad, {"99 is no data type"}),
      sum_row("op", [](Arguments& a, Extras&, int) { a.op = sparclProd; }, kNo,
              {"differ in their reductions", "float32, prod)", "float32, sum)"}),
      sum_row("a mean", [](Arguments& a, Extras&, int) { a.op = sparclAvg; }, kNo,
              {"differ in their reductions", "float32, avg)", "float32, sum)"}),
      sum_row("no op", [](Arguments& a, Extras&, int) { a.op = static_cast<sparclRedOp_t>(6); },
              kBad, {"6 is no reduction"}),
  };
}

std::vector<MismatchRow> inputs() {
  return {
      sum_row("values NULL", [](Arguments& a, Extras&, int) { a.send = nullptr; }, kBad,
              {"values or indices is NULL"}),
      sum_row("indices NULL", [](Arguments& a, Extras&, int) { a.given_indices = nullptr; }, kBad,
              {"values or indices is NULL"}),
      sum_row("a number of entries that no array has",
              [](Arguments& a, Extras&, int) { a.given = SIZE_MAX; }, kBad,
              {"nnz is 18446744073709551615: no array in memory has so many elements of 8 bytes"}),
      sum_row("a number of entries whose bytes are none",
              [](Arguments& a, Extras&, int) { a.given = std::size_t{1} << 62; }, kBad,
              {"nnz is 4611686018427387904: no array in memory has so many elements of 8 bytes"}),
      sum_row("an index beyond all",
              [](Arguments& a, Extras& extras, int) {
                extras.indices.assign(a.given_indices, a.given_indices + a.given);
                extras.indices.back() = kSumCount;
                a.given_indices = extras.indices.data();
              },
              kBad, {"indices[19] = 500, but there are 500 elements"}),
      sum_row("an index beyond all among unsorted ones",
              [](Arguments& a, Extras& extras, int) {
                extras.indices.assign(a.given_indices, a.given_indices + a.given);
                extras.indices.front() = ~std::uint64_t{0};
                a.given_indices = extras.indices.data();
              },
              kBad, {"indices[0] = 18446744073709551615, but there are 500 elements"}),
      sum_row("the entries in another order",
              [](Arguments& a, Extras& extras, int) {
                const auto* values = static_cast<const float*>(a.send);
                for (std::size_t i = a.given; i-- > 0;) {
                  extras.indices.push_back(a.given_indices[i]);
                  extras.values.push_back(values[i]);
                }
                a.given_indices = extras.indices.data();
                a.send = extras.values.data();
              },
              sparclSuccess, {}),
      sum_row("an entry in two parts",
              [](Arguments& a, Extras& extras, int) {
                const auto* values = static_cast<const float*>(a.send);
                extras.indices.assign(a.given_indices, a.given_indices + a.given);
                extras.values.assign(values, values + a.given);
                extras.indices.push_back(extras.indices.front());
                extras.values.push_back(extras.values.front() - 5);
                extras.values.front() = 5;
                a.given_indices = extras.indices.data();
                a.send = extras.values.data();
                ++a.given;
              },
              sparclSuccess, {}),
  };
}

std::vector<MismatchRow> outputs() {
  return {
      sum_row("out_nnz NULL", [](Arguments& a, Extras&, int) { a.nnz = nullptr; }, kBad,
              {"out_nnz is NULL"}),
      sum_row("out_values NULL", [](Arguments& a, Extras&, int) { a.values = nullptr; }, kBad,
              {"out_values or out_indices is NULL"}),
      sum_row("out_indices NULL", [](Arguments& a, Extras&, int) { a.indices = nullptr; }, kBad,
              {"out_values or out_indices is NULL"}),
      sum_row("outputs where the inputs are",
              [](Arguments& a, Extras& extras, int) {
                extras.values.assign(kSumUnion, 1);
                a.send = a.values = extras.values.data();
              },
              kBad, {" overlaps "}),
      sum_row("capacity", [](Arguments& a, Extras&, int) { a.capacity = kSumUnion - 1; },
              sparclTruncated, {"the sum has 30 entries, and rank ", ") has room for 29 only ("}),
      sum_row(
          "no room",
          [](Arguments& a, Extras&, int) {
            a.values = nullptr;
            a.indices = nullptr;
            a.capacity = 0;
          },
          sparclTruncated,
          {"sparclAllReduceSparse: the sum has 30 entries, and rank ", ") has room for 0 only ("}),
      sum_row("more room than the index space has",
              [](Arguments& a, Extras&, int) { a.capacity = SIZE_MAX; }, sparclSuccess, {}),
  };
}

}  // namespace

std::vector<MismatchRow> sparse_sum_rows() {
  std::vector<MismatchRow> all = what_is_summed();
  for (std::vector<MismatchRow>& more : std::vector{inputs(), outputs()})
    std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace sparcl::test
