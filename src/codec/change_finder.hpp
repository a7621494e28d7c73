#pragma once
// Who finds what has changed in arrays where they are, against a copy there, so that nothing else of them is brought here.

#include <algorithm>
#include <memory>
#include <span>

#include "src/base/status.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

class ChangeFinder {
 public:
  virtual ~ChangeFinder() = default;
  // The new values of all elements that differ from what was kept. nullptr: nothing was, or so much differs that all may as well be
  // read.
  virtual Result<std::shared_ptr<const ChangeLog>> find() = 0;
  // What the arrays hold is what the next find() starts from; they may change when this returns. hints: as the update had them; of
  // arrays that have one nothing was sent but what it names.
  virtual void keep(std::span<const ChangedHint* const> hints) = 0;
};

// Some of these say what has changed, not only that nothing has.
inline bool name_changes(std::span<const ChangedHint* const> hints) {
  return std::ranges::any_of(
      hints, [](const ChangedHint* hint) { return hint != nullptr && (hint->block_elements > 0 || !hint->indices.empty()); });
}

}  // namespace sparcl::codec
