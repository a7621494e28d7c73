#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace sparcl::aggregate {

using WorkerId = std::uint64_t;

// A worker contributes once to a round: its number is the round for which the worker made it.
struct ContributionId {
  WorkerId worker = 0;
  std::uint64_t round = 0;
  friend auto operator<=>(const ContributionId&, const ContributionId&) = default;
};

// A contribution without its entries.
struct Contribution {
  ContributionId id;
  std::uint32_t slot = 0;  // of the worker in the round of the id
  double weight = 1;       // data processed, in the units of all workers
  std::string fault{};     // its owner's reason to refuse it; empty: none
};

// A contribution that counts in a round.
struct Listed {
  ContributionId id;
  std::uint32_t slot = 0;
  std::uint64_t rounds_late = 0;
  float weight = 1;  // after the factor for late ones; products with values are rounded once

  friend bool operator==(const Listed&, const Listed&) = default;
};

}  // namespace sparcl::aggregate
