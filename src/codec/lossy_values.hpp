#pragma once
// A sender's choice of codes (scaled_codes.hpp) for the changes of a block. It replaces their new
// values by the values that receivers will have. Later stages encode, hash and bring forward these
// values, and do not use the target.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/codec/change_rule.hpp"
#include "src/codec/scaled_codes.hpp"
#include "src/codec/scratch.hpp"
#include "src/codec/update.hpp"

namespace sparcl::codec {

// InvalidArgument if the coding would have no effect: none of the arrays takes codes.
Status check_values(const ValueCoding& coding, const BlockMap& map);

class LossyChanges {
 public:
  // Moves the sent changes to the front and sets their new values, as a ChangeRule does; returns
  // their number. Leaves out changes that receivers would not see: those of no units, or lost in
  // the rounding. Keeps all changes unmodified for types without codes, and for blocks with changes
  // that codes cannot express. These are changes from or to a number that is not finite, and sizes
  // at the limits of doubles.
  std::size_t choose(const ValueCoding& coding, std::uint64_t version, const FoundChanges& changes);
  // The block's values are those of the target.
  void clear();

  // True if there are codes for the last block's changes.
  bool active() const { return active_; }
  CodeKind kind() const { return kind_; }
  Scale scale() const { return scale_; }
  const std::byte* codes() const { return codes_.data(); }
  const LossyError& error() const { return error_; }

 private:
  template <class Format, CodeKind kKind>
  std::size_t choose_as(const ValueCoding& coding, std::uint64_t key, const FoundChanges& changes);
  template <class Format>
  bool find_scale(const FoundChanges& changes);
  template <class Format>
  std::size_t keep(const FoundChanges& changes);

  bool active_ = false;
  CodeKind kind_ = CodeKind::kInt8;
  Scale scale_;
  LossyError error_;
  Scratch<double> deltas_;
  Scratch<std::byte> codes_;
  Scratch<std::byte> new_values_;
};

}  // namespace sparcl::codec
