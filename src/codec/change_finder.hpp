#pragma once
// Who finds what has changed in arrays where they are, against a copy there, so that nothing else
// of them is brought here.

#include <memory>
#include <span>

#include "src/base/status.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

class ChangeFinder {
 public:
  using Hints = std::span<const ChangedHint* const>;  // empty, or one an array: such an array is
                                                      // not looked at

  virtual ~ChangeFinder() = default;
  // The new values of all elements that differ from what was kept. nullptr: nothing was kept, or so
  // much differs, or so little memory is left, that all may as well be read.
  virtual Result<std::shared_ptr<const ChangeLog>> find(Hints hints) = 0;
  // What was found has become a version: the next find() starts from it. Or, where nothing was,
  // what the arrays hold has, but those that hints are of, which were sent as they are in `sent`,
  // on the host. The arrays may change when this returns.
  virtual void keep(Hints hints, std::span<std::byte* const> sent) noexcept = 0;
};

}  // namespace sparcl::codec
