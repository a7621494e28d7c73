#pragma once
// How much work a writer spends on fewer bytes: it follows the link to the store, and the
// processor.

#include <cstdint>

#include "src/codec/update.hpp"
#include "src/store/object_store.hpp"

namespace sparcl::store {

// kFast: without classes and entropy coding. kNormal: deltas and skips in classes, anchors with
// the entropy coder. kSmallest: the entropy coder for all.
enum class Effort : std::uint8_t { kFast, kNormal, kSmallest };

// Of a delta or a skip, for EncodeOptions.
void set_effort(codec::EncodeOptions& options, Effort effort);
// Of an anchor.
void set_anchor_effort(codec::EncodeOptions& options, Effort effort);

// Where the seconds of one object went.
struct CodingTimes {
  double coding = 0, putting = 0;
};

// With a measured link: kSmallest once the bytes that it saves would have taken longer to put than
// they take to be coded, by the times of the last objects.
class EffortChoice {
 public:
  explicit EffortChoice(StoreLink link) : link_(link) {}

  Effort next() const;
  void note(Effort used, const CodingTimes& times);

 private:
  StoreLink link_;
  double coding_ = 0, putting_ = 0;  // with kNormal
};

}  // namespace sparcl::store
