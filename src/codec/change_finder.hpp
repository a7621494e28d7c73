#pragma once
// Finds the changes of arrays in the memory that holds them, against a copy there. Only the changes
// are transferred to the host.

#include <memory>
#include <span>

#include "src/base/status.hpp"
#include "src/codec/change_log.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

class ChangeFinder {
 public:
  using Hints = std::span<const ChangedHint* const>;  // empty, or one for each array: arrays with a
                                                      // hint are not examined

  virtual ~ChangeFinder() = default;
  // The new values of all elements that differ from the copy. nullptr: there is no copy, or so much
  // differs or so little memory is left that all may as well be read.
  virtual Result<std::shared_ptr<const ChangeLog>> find(Hints hints) = 0;
  // The found changes have become a version: the next find() starts from it. Without a find(), the
  // version is the state of the arrays; arrays with hints were sent as they are in `sent`, on the
  // host. The arrays may change when this returns.
  virtual void keep(Hints hints, std::span<std::byte* const> sent) noexcept = 0;
};

}  // namespace sparcl::codec
