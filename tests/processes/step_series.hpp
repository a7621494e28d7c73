#pragma once
// A seeded series of collectives and what everybody holds after each of them: every rank works both
// out by itself.

#include <cstdint>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "src/base/seeded_random.hpp"

namespace sparcl::test {

using ByteList = std::vector<unsigned char>;

enum class StepKind : std::uint8_t {
  kDelta,
  kUpdate,
  kSparse,
  kMasked,
  kSparseSum,
  kTopK,
  kAggregate
};
constexpr bool has_root(StepKind kind) { return kind < StepKind::kMasked; }

struct Step {
  StepKind kind = StepKind::kDelta;
  int root = 0;
  bool nonblocking = false;  // started together with its neighbours that are, too
  double share = 0;          // of the elements that change, about
  std::uint64_t seed = 0;    // of the changes
};

struct TensorShape {
  sparclDataType_t datatype = sparclFloat32;
  std::uint64_t count = 0;
};

std::size_t bytes_of(sparclDataType_t datatype);
const char* name_of(StepKind kind);

// What a model is made of: the array of the deltas, the tensors of the updates.
std::vector<TensorShape> shapes_of(StepKind kind, std::uint64_t series);
std::vector<ByteList> first_state(const std::vector<TensorShape>& shapes, std::uint64_t series);
std::vector<ByteList> changed_state(const std::vector<ByteList>& state,
                                    const std::vector<TensorShape>& shapes, const Step& step);

struct SparseContent {
  sparclDataType_t datatype = sparclFloat32;
  std::vector<std::uint64_t> indices;
  ByteList values;
};
SparseContent sparse_content(const Step& step);

// What a rank gives to a masked all-reduce: of all elements, of which the mask has some.
struct MaskedContent {
  std::uint64_t count = 0;
  double density = 0;
  std::uint64_t mask_seed = 0;
};
MaskedContent masked_content(const Step& step);
std::vector<std::int64_t> masked_values(const Step& step, int rank);

// What a rank gives to a sum of sparse vectors; indices ascend.
constexpr std::uint64_t kSumCount = 60'000;
struct SumContent {
  std::vector<std::uint64_t> indices;
  std::vector<std::int64_t> values;
};
SumContent sum_content(const Step& step, int rank);

// The array of a series' top-k calls, and what a rank gives to one of them.
std::uint64_t top_k_count(std::uint64_t series);
std::vector<std::int64_t> top_k_values(const Step& step, int rank, std::uint64_t count);

std::vector<Step> make_series(std::uint64_t series, int ranks, int steps);

}  // namespace sparcl::test
