#include "src/codec/base_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/codec/state_hash.hpp"

namespace sparcl::codec {
namespace {

Status leads_elsewhere(const Hash128& target, const Hash128& said) {
  return Status(Code::kCorrupt,
                fmt::format("the update leads to a state with hash {}, but names {} as its target",
                            to_hex(target), to_hex(said)));
}

}  // namespace

void BaseCheck::add(const BlockSums& sums) {
  chunk_.add(sums);
  held_hash_ = held_hash_ + sums.held;
  change_hash_ = change_hash_ + sums.change;
}

Status BaseCheck::end_chunk(const ChunkDigests& said) {
  if (!has_digests_) {
    const bool silent = said.old_values == 0 && said.new_values == 0;
    return silent ? Status()
                  : Status(Code::kCorrupt, "an update without digests has a chunk with some");
  }
  const bool is_old = digest_of(chunk_.held_values) == said.old_values && chunk_.fits;
  const bool is_new = digest_of(chunk_.held_values) == said.new_values;
  const bool follows = digest_of(chunk_.new_values) == said.new_values;
  const bool is_undecided = chunk_.has_classes && !is_old;
  is_undecided_ = is_undecided_ || (is_undecided && verify_ != Verify::kFull);
  all_old_ = all_old_ && is_old;
  all_new_ = all_new_ && (is_new || is_undecided);
  chunk_ = {};
  if (is_old && !follows) {
    return Status(Code::kCorrupt,
                  "the coded changes do not lead to the values that the update names");
  }
  if (verify_ != Verify::kFull && !all_old_ && !all_new_) {  // kFull ends with hashes to print
    return Status(
        Code::kWrongBase,
        fmt::format("what is held at the changed elements is {}",
                    is_old || is_new ? "partly the base of this update and partly its target"
                                     : "neither the base of this update nor its target"));
  }
  return {};
}

Status BaseCheck::finish(const StateHashes& said) {
  if (verify_ == Verify::kFull) return finish_full(said);
  if (is_undecided_) return finish_undecided(said);
  already_applied_ = all_new_ && !all_old_;
  return already_applied_ ? Status() : finish_tracked(said);
}

Status BaseCheck::finish_window() const {
  if (all_old_) return {};
  return Status(Code::kWrongBase, "what is held at the changed elements is not the update's base");
}

Status BaseCheck::finish_undecided(const StateHashes& said) {
  already_applied_ = held_hash_ == said.target;
  if (already_applied_) return {};
  return Status(
      Code::kWrongBase,
      fmt::format(
          "the state held has hash {}: it is neither the base of this update nor its target ({})",
          to_hex(held_hash_), to_hex(*said.target)));
}

Status BaseCheck::finish_full(const StateHashes& said) {
  const Hash128 target = held_hash_ + change_hash_;
  if (is_nothing_held_)
    return target == said.target ? Status() : leads_elsewhere(target, *said.target);
  already_applied_ = held_hash_ == said.target && said.base != said.target;
  if (already_applied_) return {};
  const bool is_base = said.base ? held_hash_ == said.base : all_old_;
  if (is_base && target == said.target) return {};
  if (is_base && said.base) return leads_elsewhere(target, *said.target);
  return Status(
      Code::kWrongBase,
      fmt::format(
          "the state held has hash {}; the update is from {} to {}", to_hex(held_hash_),
          said.base ? to_hex(*said.base) : std::string("a base that its sender did not have whole"),
          to_hex(*said.target)));
}

// The update starts from the state that the caller believes to hold. Its changes, which were
// checked against the held values, must then lead to the target. Held states of another history are
// not checked here: the caller may have written them.
Status BaseCheck::finish_tracked(const StateHashes& said) const {
  if (!tracked_ || !said.target || said.base != tracked_) return {};
  const Hash128 target = *tracked_ + change_hash_;
  return target == *said.target ? Status() : leads_elsewhere(target, *said.target);
}

}  // namespace sparcl::codec
