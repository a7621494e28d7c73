#include "tests/mismatch/mismatch_table.hpp"

#include <iterator>
#include <utility>

#include "tests/mismatch/aggregate_rows.hpp"
#include "tests/mismatch/masked_rows.hpp"
#include "tests/mismatch/option_rows.hpp"
#include "tests/mismatch/row_words.hpp"
#include "tests/mismatch/sparse_sum_rows.hpp"
#include "tests/mismatch/top_k_rows.hpp"

namespace sparcl::test {
namespace {

void same(Arguments&, Extras&, int) {}

// What all operations have.
std::vector<MismatchRow> common_rows(Operation operation) {
  return {
      {"nothing", operation, operation, Who::kAny, same, sparclSuccess, {}},
      {"stream",
       operation,
       operation,
       Who::kAny,
       [](Arguments& a, Extras& extras, int) {
         a.stream = reinterpret_cast<sparclStream_t>(&extras);
       },
       sparclUnsupported,
       {"stream NULL"}},
  };
}

std::vector<MismatchRow> root_rows(Operation operation) {
  return {
      {"root",
       operation,
       operation,
       Who::kAny,
       [](Arguments& a, Extras&, int ranks) { a.root = (a.root + 1) % ranks; },
       sparclMismatch,
       {"differ in their roots", "root $root)", "root $odd_root)"}},
      {"a root below all",
       operation,
       operation,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.root = -1; },
       sparclInvalidArgument,
       {"root -1 is no rank"}},
      {"a root above all",
       operation,
       operation,
       Who::kAny,
       [](Arguments& a, Extras&, int ranks) { a.root = ranks; },
       sparclInvalidArgument,
       {"is no rank of this communicator"}},
  };
}

std::vector<MismatchRow> operation_rows() {
  std::vector<MismatchRow> rows;
  for (const Operation operation : kOperations) {
    for (const Operation odd : kOperations) {
      if (odd == operation) continue;
      rows.push_back({"operation",
                      operation,
                      odd,
                      Who::kAny,
                      same,
                      sparclMismatch,
                      {"differ in their operations", name_of(operation), name_of(odd)}});
    }
  }
  return rows;
}

std::vector<MismatchRow> delta_rows() {
  return {
      {"count",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.count = 999; },
       sparclMismatch,
       {"differ in their counts", "count 999,", "count 1000,"}},
      {"count 0",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.count = 0; },
       sparclMismatch,
       {"differ in their counts", "count 0,", "count 1000,"}},
      {"a count that no array has",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.count = SIZE_MAX; },
       sparclInvalidArgument,
       {"count is 18446744073709551615: no array in memory has so many elements of 2 bytes"}},
      {"a type as wide",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.datatype = sparclFloat16; },
       sparclMismatch,
       {"differ in their data types", "float16,", "bfloat16,"}},
      {"a narrower type",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.datatype = sparclInt8; },
       sparclMismatch,
       {"differ in their data types", "int8,", "bfloat16,"}},
      {"no type",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.datatype = static_cast<sparclDataType_t>(99); },
       sparclInvalidArgument,
       {"99 is no data type"}},
      {"weights NULL",
       kDelta,
       kDelta,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.weights = nullptr; },
       sparclInvalidArgument,
       {"weights is NULL"}},
      {"another base",
       kDelta,
       kDelta,
       Who::kRoot,
       [](Arguments& a, Extras& extras, int) {
         extras.array.assign(kDeltaCount, 0xbeef);
         a.base = extras.array.data();
       },
       sparclWrongBase,
       {"sparclBroadcastDelta: ", "neither the base of this update nor its target",
        "a call in which the root's base is NULL"}},
      {"no base",
       kDelta,
       kDelta,
       Who::kRoot,
       [](Arguments& a, Extras&, int) { a.base = nullptr; },
       sparclSuccess,
       {}},
      {"a base that is ignored",
       kDelta,
       kDelta,
       Who::kOther,
       [](Arguments& a, Extras&, int) { a.base = nullptr; },
       sparclSuccess,
       {}},
  };
}

// An update of a state that is made of other tensors.
#define SPARCL_STATE_ROW(name, texts, ...)                                                 \
  {                                                                                        \
    name, kUpdate, kUpdate, Who::kAny,                                                     \
        [](Arguments& a, Extras& extras, int) { a.state = extras.state_of(__VA_ARGS__); }, \
        sparclMismatch, texts                                                              \
  }

std::vector<MismatchRow> schema_rows() {
  using Texts = std::vector<std::string>;
  using List = std::vector<TensorSpec>;
  const Texts first{"tensors (names, types, shapes or order), first in tensor 0"};
  const Texts second{"tensors (names, types, shapes or order), first in tensor 1"};
  const Texts third{"tensors (names, types, shapes or order), first in tensor 2"};
  return {
      SPARCL_STATE_ROW("a tensor's name", second,
                       List{usual_tensors()[0], {"layer.BIAS", sparclInt32, {100}}}),
      SPARCL_STATE_ROW("a tensor's type", second,
                       List{usual_tensors()[0], {"layer.bias", sparclUint32, {100}}}),
      SPARCL_STATE_ROW("a tensor's size", second,
                       List{usual_tensors()[0], {"layer.bias", sparclInt32, {101}}}),
      SPARCL_STATE_ROW("a tensor's shape", first,
                       List{{"layer.weight", sparclFloat32, {30, 20}}, usual_tensors()[1]}),
      SPARCL_STATE_ROW("the order of tensors", first, List{usual_tensors()[1], usual_tensors()[0]}),
      SPARCL_STATE_ROW("a tensor too few", second, List{usual_tensors()[0]}),
      SPARCL_STATE_ROW("a tensor too many", third,
                       List{usual_tensors()[0], usual_tensors()[1], {"extra", sparclInt8, {}}}),
      SPARCL_STATE_ROW("an empty tensor too many", third,
                       List{usual_tensors()[0], usual_tensors()[1], {"extra", sparclInt8, {0}}}),
      SPARCL_STATE_ROW("no tensor", first, List{}),
      SPARCL_STATE_ROW("a tensor's priority", first,
                       List{usual_tensors()[0], {"layer.bias", sparclInt32, {100}, 5}}),
  };
}
#undef SPARCL_STATE_ROW

std::vector<MismatchRow> update_rows() {
  return {
      {"version",
       kUpdate,
       kUpdate,
       Who::kOther,
       [](Arguments& a, Extras&, int) { a.version += 1; },
       sparclMismatch,
       {"called for version", "the root, rank $root, for version", "pass the same, or 0"}},
      {"the root's version",
       kUpdate,
       kUpdate,
       Who::kRoot,
       [](Arguments& a, Extras&, int) { a.version += 1; },
       sparclMismatch,
       {"called for version", "the root, rank $root, for version", "pass the same, or 0"}},
      {"any version",
       kUpdate,
       kUpdate,
       Who::kOther,
       [](Arguments& a, Extras&, int) { a.version = 0; },
       sparclSuccess,
       {}},
      {"state NULL",
       kUpdate,
       kUpdate,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.state = nullptr; },
       sparclInvalidArgument,
       {"state is NULL"}},
      {"options without a size",
       kUpdate,
       kUpdate,
       Who::kAny,
       [](Arguments& a, Extras& extras, int) {
         extras.options.size = 0;
         a.options = &extras.options;
       },
       sparclInvalidArgument,
       {"options.size is "}},
      {"options that there are not",
       kUpdate,
       kUpdate,
       Who::kAny,
       [](Arguments& a, Extras& extras, int) {
         extras.options.select = static_cast<sparclSelect_t>(99);
         a.options = &extras.options;
       },
       sparclInvalidArgument,
       {"options.select = 99 is no sparclSelect_t"}},
      {"options that are ignored",
       kUpdate,
       kUpdate,
       Who::kOther,
       [](Arguments& a, Extras& extras, int) {
         extras.options.select = sparclSelectTopK;
         extras.options.count = 1;
         extras.options.values = sparclValuesInt8;
         a.options = &extras.options;
       },
       sparclSuccess,
       {}},
      {"the root's options",
       kUpdate,
       kUpdate,
       Who::kRoot,
       [](Arguments& a, Extras& extras, int) { a.options = &extras.options; },
       sparclSuccess,
       {}},
  };
}

std::vector<MismatchRow> sparse_rows() {
  return {
      {"type",
       kSparse,
       kSparse,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.datatype = sparclInt32; },
       sparclMismatch,
       {"differ in their data types", "int32,", "float32,"}},
      {"no type",
       kSparse,
       kSparse,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.datatype = static_cast<sparclDataType_t>(31); },
       sparclInvalidArgument,
       {"31 is no data type"}},
      {"nnz NULL",
       kSparse,
       kSparse,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.nnz = nullptr; },
       sparclInvalidArgument,
       {"nnz is NULL"}},
      {"values NULL",
       kSparse,
       kSparse,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.values = nullptr; },
       sparclInvalidArgument,
       {"values is NULL"}},
      {"indices NULL",
       kSparse,
       kSparse,
       Who::kAny,
       [](Arguments& a, Extras&, int) { a.indices = nullptr; },
       sparclInvalidArgument,
       {"indices is NULL"}},
      {"indices that do not ascend",
       kSparse,
       kSparse,
       Who::kRoot,
       [](Arguments& a, Extras& extras, int) {
         extras.indices.assign(kEntries, 5);
         a.indices = extras.indices.data();
       },
       sparclInvalidArgument,
       {"indices must ascend strictly: indices[0] = 5 is followed by 5"}},
      {"a number of entries that no array has",
       kSparse,
       kSparse,
       Who::kRoot,
       [](Arguments& a, Extras& extras, int) {
         extras.nnz = SIZE_MAX;
         a.nnz = &extras.nnz;
       },
       sparclInvalidArgument,
       {"*nnz is 18446744073709551615: no array in memory has so many indices"}},
      {"capacity",
       kSparse,
       kSparse,
       Who::kOther,
       [](Arguments& a, Extras&, int) { a.capacity = kEntries - 1; },
       sparclTruncated,
       {"50 entries do not fit a capacity of 49"}},
      {"no room",
       kSparse,
       kSparse,
       Who::kOther,
       [](Arguments& a, Extras&, int) {
         a.values = nullptr;
         a.indices = nullptr;
         a.capacity = 0;
       },
       sparclTruncated,
       {"50 entries do not fit a capacity of 0"}},
      {"just enough room",
       kSparse,
       kSparse,
       Who::kOther,
       [](Arguments& a, Extras&, int) { a.capacity = kEntries; },
       sparclSuccess,
       {}},
      {"a capacity that is ignored",
       kSparse,
       kSparse,
       Who::kRoot,
       [](Arguments& a, Extras&, int) { a.capacity = 0; },
       sparclSuccess,
       {}},
  };
}

}  // namespace

std::vector<MismatchRow> mismatch_table() {
  std::vector<MismatchRow> all;
  const auto add = [&](std::vector<MismatchRow> rows) {
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  };
  for (const Operation operation : kOperations) {
    add(common_rows(operation));
    if (has_root(operation)) add(root_rows(operation));
  }
  add(operation_rows());
  add(delta_rows());
  add(schema_rows());
  add(update_rows());
  add(sparse_rows());
  add(masked_rows());
  add(sparse_sum_rows());
  add(top_k_rows());
  add(aggregate_rows());
  add(call_option_rows());
  return all;
}

}  // namespace sparcl::test
