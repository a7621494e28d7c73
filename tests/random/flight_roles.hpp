#pragma once
// What the random collectives share: who is the root, and who does what wrong.

#include <array>
#include <initializer_list>
#include <string>

#include "tests/random/random_flights.hpp"

namespace sparcl::test {

template <class List>
auto pick(const List& list, SeededRandom& random) {
  return list[random.below(list.size())];
}

// What one rank does wrong.
enum class Slip : std::uint8_t {
  kNone,
  kRoot,
  kCount,
  kType,
  kVersion,
  kBase,
  kCapacity,
  kOrder,
  kMask,
  kOperator,
  kIndex,
  kNull,
  kOption,
  kFeedback
};
const char* name_of(Slip slip);

inline constexpr std::array kShares{0.0, 1e-5, 1e-3, 0.01, 0.03, 0.2, 0.5, 0.9, 1.0};
inline constexpr double kSlipChance = 0.06;
// Below it no broadcast sends all elements, which checks no base.
inline constexpr double kCheckedShare = 0.02;

std::size_t draw_count(SeededRandom& random);
// Of arrays that are summed: every rank works out all ranks'.
std::size_t draw_sum_count(SeededRandom& random);
sparclRedOp_t draw_op(sparclDataType_t datatype, SeededRandom& random);

struct Roles {
  int root = 0, odd = 0;
  Slip slip = Slip::kNone;

  Roles(const Scene& scene, SeededRandom& random, std::initializer_list<Slip> slips) {
    const auto ranks = static_cast<std::uint64_t>(scene.ranks);
    root = static_cast<int>(random.below(ranks));
    odd = static_cast<int>(random.below(ranks));
    if (random.chance(kSlipChance) && ranks > 1) slip = slips.begin()[random.below(slips.size())];
  }
  int another_root(const Scene& scene) const { return (root + 1) % scene.ranks; }
};

// Empty: the call returned what it must, and its report says so.
std::string wrong_result(sparclResult_t result, sparclResult_t expected,
                         const sparclReport_t& report);

// Makes an element that the update changes neither what it was nor what it becomes.
void spoil(HeldArray& array);

}  // namespace sparcl::test
