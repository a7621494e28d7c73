#pragma once
// What a top-k all-reduce gives and leaves behind, element by element, as the interface says it.

#include "tests/random/values.hpp"

namespace sparcl::test {

struct TopKRule {
  sparclDataType_t datatype = sparclFloat32;
  bool is_mean = false;
  int mode = sparclTopKUnion;
  int wire = 0;
  std::size_t k = 0;
};

struct TopKOutcome {
  ByteList received;                  // of all ranks
  std::vector<std::size_t> selected;  // how many elements, by rank
  std::size_t kept = 0;
};

std::size_t residual_width(sparclDataType_t datatype);

// given: elements, by rank. residuals: accumulators, by rank, which move on; empty ones: the rank
// has no feedback.
TopKOutcome top_k_of(const TopKRule& rule, const std::vector<ByteList>& given,
                     std::vector<ByteList>& residuals);

}  // namespace sparcl::test
