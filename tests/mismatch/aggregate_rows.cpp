#include "tests/mismatch/aggregate_rows.hpp"

#include <iterator>
#include <utility>

#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

MismatchRow aggregate_row(const char* name, void (*change)(Arguments&, Extras&, int),
                          sparclResult_t expected, std::vector<std::string> texts) {
  return {name,     Operation::kAggregate, Operation::kAggregate, Who::kAny, change,
          expected, std::move(texts)};
}

void aggregate_on(Arguments& a, Extras& extras, int rank) {
  extras.ranks = {rank};
  extras.aggregate_options = *a.aggregate_options;
  extras.aggregate_options.ranks = extras.ranks.data();
  extras.aggregate_options.rank_count = 1;
  a.aggregate_options = &extras.aggregate_options;
}

std::vector<MismatchRow> what_is_aggregated() {
  return {
      aggregate_row("count",
                    [](Arguments& a, Extras& extras, int) {
                      a.count = kSumCount + 1;
                      a.aggregate_options = extras.aggregate_by(kSumCount + 1);
                    },
                    kNo, {"differ in their counts", "count 501,", "count 500,"}),
      aggregate_row("a count that is not the aggregator's",
                    [](Arguments& a, Extras&, int) { a.count = kSumCount + 1; }, kBad,
                    {"count is 501, but the aggregator is of 500 elements"}),
      aggregate_row("a type", [](Arguments& a, Extras&, int) { a.datatype = sparclBfloat16; }, kNo,
                    {"differ in their data types", "bfloat16", "float32"}),
      aggregate_row("a type that is no float",
                    [](Arguments& a, Extras&, int) { a.datatype = sparclInt32; }, sparclUnsupported,
                    {"aggregation is of floats of at most 32 bits"}),
      aggregate_row("a negative weight", [](Arguments& a, Extras&, int) { a.weight = -1; }, kBad,
                    {"weight is -1: give a number from 0 to 3.4e38"}),
      aggregate_row("indices NULL", [](Arguments& a, Extras&, int) { a.given_indices = nullptr; },
                    kBad, {"values or indices is NULL"}),
      aggregate_row("out_nnz NULL", [](Arguments& a, Extras&, int) { a.nnz = nullptr; }, kBad,
                    {"out_nnz is NULL"}),
      aggregate_row("capacity", [](Arguments& a, Extras&, int) { a.capacity = kSumUnion - 1; },
                    sparclTruncated,
                    {"the result has 30 entries, and rank ", ") has room for 29 only"}),
  };
}

std::vector<MismatchRow> how_it_is_aggregated() {
  return {
      aggregate_row("no options", [](Arguments& a, Extras&, int) { a.aggregate_options = nullptr; },
                    kNo, {"differ in their aggregators (options or rounds) or ranks"}),
      aggregate_row("another mean",
                    [](Arguments& a, Extras& extras, int) {
                      sparclAggregatorOptions_t how = SPARCL_AGGREGATOR_OPTIONS_INITIALIZER;
                      how.mean = sparclMeanOverWorkers;
                      a.aggregate_options = extras.aggregate_by(kSumCount, &how);
                    },
                    kNo, {"differ in their aggregators (options or rounds) or ranks"}),
      aggregate_row("an aggregator that is some rounds behind",
                    [](Arguments& a, Extras& extras, int) {
                      a.aggregate_options = extras.aggregate_by(kSumCount);
                    },
                    kNo, {"differ in their aggregators (options or rounds) or ranks"}),
      aggregate_row("fewer ranks that aggregate",
                    [](Arguments& a, Extras& extras, int) { aggregate_on(a, extras, 0); }, kNo,
                    {"differ in their aggregators (options or rounds) or ranks"}),
      aggregate_row("a rank that there is not",
                    [](Arguments& a, Extras& extras, int ranks) { aggregate_on(a, extras, ranks); },
                    kBad, {"options.ranks[0] is "}),
      aggregate_row("options without a size",
                    [](Arguments& a, Extras& extras, int) {
                      extras.aggregate_options.size = 0;
                      a.aggregate_options = &extras.aggregate_options;
                    },
                    kBad, {"options.size is 0: expected "}),
  };
}

}  // namespace

std::vector<MismatchRow> aggregate_rows() {
  std::vector<MismatchRow> all = what_is_aggregated();
  std::vector<MismatchRow> more = how_it_is_aggregated();
  std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace sparcl::test
