#include "src/store/coding_effort.hpp"

namespace sparcl::store {
namespace {

// Times and bytes beside those of kNormal, of bf16 weights of which 1 to 20 % have changed
// (docs/results/codec-2026-11-21.md). Heuristics.
struct Cost {
  double time = 1, bytes = 1;
};

Cost cost_of(Effort effort) {
  switch (effort) {
    case Effort::kFast:
      return {0.6, 1.3};
    case Effort::kNormal:
      return {1, 1};
    case Effort::kSmallest:
      return {6, 0.97};
  }
  return {};
}

}  // namespace

void set_effort(codec::EncodeOptions& options, Effort effort) {
  options.allow_classes = effort != Effort::kFast;
  options.fewest_bytes = effort == Effort::kSmallest;
}

void set_anchor_effort(codec::EncodeOptions& options, Effort effort) {
  options.fewest_bytes = effort != Effort::kFast;
}

Effort EffortChoice::next() const {
  if (link_ == StoreLink::kFast) return Effort::kFast;
  if (link_ == StoreLink::kMetered) return Effort::kSmallest;
  const auto seconds = [&](Effort effort) {
    const Cost cost = cost_of(effort);
    return coding_ * cost.time + putting_ * cost.bytes;
  };
  return seconds(Effort::kSmallest) < seconds(Effort::kNormal) ? Effort::kSmallest
                                                               : Effort::kNormal;
}

void EffortChoice::note(Effort used, const CodingTimes& times) {
  const Cost cost = cost_of(used);
  const double coding = times.coding / cost.time, putting = times.putting / cost.bytes;
  const bool is_first = coding_ == 0 && putting_ == 0;
  coding_ = is_first ? coding : (coding_ + coding) / 2;
  putting_ = is_first ? putting : (putting_ + putting) / 2;
}

}  // namespace sparcl::store
