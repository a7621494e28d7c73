#include "tests/mismatch/masked_rows.hpp"

#include <iterator>
#include <utility>

#include "tests/mismatch/row_words.hpp"

namespace sparcl::test {
namespace {

// A masked call of one rank with other arguments than the others'.
MismatchRow masked_row(const char* name, void (*change)(Arguments&, Extras&, int),
                       sparclResult_t expected, std::vector<std::string> texts) {
  return {name, kMasked, kMasked, Who::kAny, change, expected, std::move(texts)};
}

const char* const kUsualMask = "mask: random, density 0.1, 90 elements, seed 11, step 0)";

std::vector<MismatchRow> mask_rows() {
  return {
      masked_row("a mask's density",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(random_mask(kMaskedCount, 0.2, kMaskSeed));
                 },
                 kNo,
                 {"differ in their masks (density):",
                  "mask: random, density 0.2, 180 elements, seed 11, step 0)", kUsualMask}),
      masked_row("a mask's seed",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(random_mask(kMaskedCount, kMaskDensity, 12));
                 },
                 kNo,
                 {"differ in their masks (seed):",
                  "mask: random, density 0.1, 90 elements, seed 12, step 0)", kUsualMask}),
      masked_row("a mask's step",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(random_mask(kMaskedCount, kMaskDensity, kMaskSeed));
                   (void)sparclMaskSetStep(a.mask, 7);
                 },
                 kNo,
                 {"differ in their masks (step):",
                  "mask: random, density 0.1, 90 elements, seed 11, step 7)", kUsualMask}),
      masked_row("a mask's seed and step",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(random_mask(kMaskedCount, kMaskDensity, 12));
                   (void)sparclMaskSetStep(a.mask, 7);
                 },
                 kNo, {"differ in their masks (seed, step):", "seed 12, step 7)", kUsualMask}),
      masked_row("a mask of indices",
                 [](Arguments& a, Extras& extras, int) {
                   extras.indices = {1, 2, 77};
                   a.mask = extras.keep(indices_mask(extras.indices, kMaskedCount));
                 },
                 kNo,
                 {"differ in their masks (kind):", "mask: indices, 3 elements, hash ", kUsualMask}),
      masked_row(
          "a mask of the same indices, made otherwise",
          [](Arguments& a, Extras& extras, int) {
            extras.indices.resize(kMaskedCount);
            std::size_t nnz = 0;
            (void)sparclMaskGetIndices(a.mask, extras.indices.data(), extras.indices.size(), &nnz);
            extras.indices.resize(nnz);
            a.mask = extras.keep(indices_mask(extras.indices, kMaskedCount));
          },
          kNo, {"differ in their masks (kind):", "mask: indices, 90 elements, hash ", kUsualMask}),
      masked_row("a mask of blocks",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(blocks_mask(kMaskedCount, 9, kMaskDensity, kMaskSeed));
                 },
                 kNo,
                 {"differ in their masks (kind):",
                  "mask: blocks of 9, density 0.1, 90 elements, seed 11, step 0)", kUsualMask}),
      masked_row(
          "an empty mask",
          [](Arguments& a, Extras& extras, int) {
            a.mask = extras.keep(random_mask(kMaskedCount, 0, kMaskSeed));
          },
          kNo,
          {"differ in their masks (density):", "mask: random, density 0, 0 elements", kUsualMask}),
      masked_row("an equal mask",
                 [](Arguments& a, Extras& extras, int) {
                   a.mask = extras.keep(random_mask(kMaskedCount, kMaskDensity, kMaskSeed));
                 },
                 sparclSuccess, {}),
      masked_row("mask NULL", [](Arguments& a, Extras&, int) { a.mask = nullptr; },
                 sparclInvalidArgument, {"mask is NULL"}),
  };
}

std::vector<MismatchRow> argument_rows() {
  return {
      masked_row("count, with a mask of it",
                 [](Arguments& a, Extras& extras, int) {
                   a.count = 800;
                   a.mask = extras.keep(random_mask(800, kMaskDensity, kMaskSeed));
                 },
                 kNo, {"differ in their counts", "count 800,", "count 900,"}),
      masked_row("a count that is not the mask's",
                 [](Arguments& a, Extras&, int) { a.count = 899; }, kBad,
                 {"count is 899, but the mask is of arrays of 900 elements"}),
      masked_row("a type as wide", [](Arguments& a, Extras&, int) { a.datatype = sparclInt32; },
                 kNo, {"differ in their data types", "int32, sum)", "float32, sum)"}),
      masked_row("a narrower type", [](Arguments& a, Extras&, int) { a.datatype = sparclBfloat16; },
                 kNo, {"differ in their data types", "bfloat16, sum)", "float32, sum)"}),
      masked_row("no type",
                 [](Arguments& a, Extras&, int) { a.datatype = static_cast<sparclDataType_t>(99); },
                 kBad, {"99 is no data type"}),
      masked_row("op", [](Arguments& a, Extras&, int) { a.op = sparclMax; }, kNo,
                 {"differ in their reductions", "float32, max)", "float32, sum)"}),
      masked_row("a mean", [](Arguments& a, Extras&, int) { a.op = sparclAvg; }, kNo,
                 {"differ in their reductions", "float32, avg)", "float32, sum)"}),
      masked_row("no op", [](Arguments& a, Extras&, int) { a.op = static_cast<sparclRedOp_t>(5); },
                 kBad, {"5 is no reduction"}),
      masked_row("sendbuff NULL", [](Arguments& a, Extras&, int) { a.send = nullptr; }, kBad,
                 {"sendbuff is NULL"}),
      masked_row("recvbuff NULL", [](Arguments& a, Extras&, int) { a.receive = nullptr; }, kBad,
                 {"recvbuff is NULL"}),
  };
}

}  // namespace

std::vector<MismatchRow> masked_rows() {
  std::vector<MismatchRow> all = mask_rows();
  std::vector<MismatchRow> more = argument_rows();
  std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace sparcl::test
