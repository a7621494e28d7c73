#pragma once
// Decisions about a contribution before it counts. They follow from facts that its worker sends
// along, so that all shards decide alike.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sparcl::aggregate {

struct ContributionFacts {
  double squares = 0;            // the sum of the squares of its finite values
  std::uint64_t not_finite = 0;  // values that are NaN or infinite
};

// values: all of a contribution, in the order of their indices. The same bits everywhere.
ContributionFacts facts_of(std::span<const float> values);

enum class NonFinite : std::uint8_t {
  kRefuse,  // the contribution
  kZero,    // the values count as 0
  kFail     // the round
};

// Both scale a contribution whose L2 norm is larger down to that norm. 0: not.
struct ClipOptions {
  double l2_norm = 0;
  double median_factor = 0;  // times the median norm of the round's contributions
};

struct ScreenOptions {
  NonFinite non_finite = NonFinite::kRefuse;
  ClipOptions clip;
};

// The decisions about a round's contributions, in the order of their facts.
struct Screening {
  std::vector<bool> is_refused;
  std::vector<float> clip;  // factors of values, 1: not clipped
  bool is_failed = false;
};
Screening screen(const ScreenOptions& options, std::span<const ContributionFacts> facts);

// out[i] = (values[i] * clip) * weight, each product rounded to float32; never -0. Values that are
// not finite become 0. out may be values.
void weigh(std::span<const float> values, float clip, float weight, std::span<float> out);

}  // namespace sparcl::aggregate
