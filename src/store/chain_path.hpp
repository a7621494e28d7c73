#pragma once
// Which objects lead a reader to a version.

#include <optional>
#include <span>
#include <vector>

#include "src/store/version_chain.hpp"

namespace sparcl::store {

// A writer makes skips to each record whose number is a multiple of kSkipEvery, from so many
// records before it. The longest first.
inline constexpr std::uint64_t kSkipEvery = 8, kSkips[] = {64, 8};

// A longer path is refused: a hostile server may always have another record (a heuristic).
inline constexpr std::size_t kMaxPathSteps = 10'000;

// What a writer puts beside the deltas. kHybrid: anchors, and the skips above. kPlain: anchors.
// kIndependent: anchors, and to each record a skip from the last anchor.
enum class ChainShape : std::uint8_t { kHybrid, kPlain, kIndependent };

struct ChainStep {
  std::uint64_t number = 0;   // of the record that it leads to
  std::uint64_t from = 0;     // of the record that it leads on from; 0: an anchor
  model::HeldVersion target;  // whose version
  StoredObject object;
  std::optional<StoredObject> index = {};  // of an anchor; nullopt: it has none
  bool is_anchor() const { return from == 0; }
  // The first record that a reader needs who takes this step and later ones.
  std::uint64_t first_needed() const { return is_anchor() ? number : from; }
};

// What may be read. The default: all.
struct PathChoice {
  std::optional<model::HeldVersion> held = {};  // nullopt: only from an anchor on
  bool has_skips = true;
  bool has_earlier_anchors = true;           // than the nearest one, where they were fetched before
  std::uint64_t anchors_below = UINT64_MAX;  // their records' numbers
  double anchor_share = 1;                   // of an anchor with an index, that is read

  // An object of the steps is damaged: excludes it with others. False: nothing else is left.
  bool exclude(std::span<const ChainStep> steps);
};

// The fewest bytes from what is held to the target: deltas and skips from there, or from an anchor.
// Objects in the cache of fetched ones count less, and on a metered link nothing.
// Empty: the target is held. Corrupt: no objects lead there.
Result<std::vector<ChainStep>> steps_to(const Chain& chain, const VersionRecord& target,
                                        const PathChoice& choice);

}  // namespace sparcl::store
