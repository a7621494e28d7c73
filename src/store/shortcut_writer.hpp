#pragma once
// Writes anchors and skips beside the training: a thread codes and puts them after their version is
// there. Readers need none of them but the first anchor.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "src/codec/change_log.hpp"
#include "src/store/chain_path.hpp"
#include "src/store/chain_state.hpp"
#include "src/store/coding_effort.hpp"
#include "src/store/retention.hpp"
#include "src/store/update_coding.hpp"

namespace sparcl::store {

class ShortcutWriter {
 public:
  // state: with the arrays of the snapshot, which holds the version of the record that was noted
  // last. writer: the name of the chain's writer, a part of keys.
  // keep: after each anchor; 0 versions: all. history: the most versions that a skip leads over.
  struct Plan {
    ChainShape shape = ChainShape::kHybrid;
    std::uint64_t history = 0;
    Keep keep = {};
  };
  ShortcutWriter(const Chain& chain, const ChainState& state, std::string writer, const Plan& plan)
      : chain_(chain),
        state_(state),
        writer_(std::move(writer)),
        plan_(plan),
        effort_(chain.store().link()) {}
  ~ShortcutWriter() { wait(); }
  ShortcutWriter(const ShortcutWriter&) = delete;
  ShortcutWriter& operator=(const ShortcutWriter&) = delete;

  using Log = std::shared_ptr<const codec::ChangeLog>;
  // The delta to this record has replaced these values. nullptr: they are not known, and no skip
  // begins before it. Never throws.
  void note(const VersionRecord& record, Log replaced) noexcept;
  // Begins with what is due at the record that was noted last. The snapshot does not change before
  // wait().
  void begin(const VersionRecord& record, bool with_anchor) noexcept;
  // Whether the values since a record are known, so that a skip from there can be made.
  bool reaches(std::uint64_t number, const VersionRecord& newest) const {
    return newest.number - number <= history_.size();
  }
  // Until all is done. A failure is logged: the next record tries again.
  void wait();
  // An anchor of the snapshot.
  Result<PutAnchor> put_anchor(std::uint64_t number, std::uint64_t version);

  // After wait(): the newest one that this writer has put.
  const std::optional<Shortcut>& anchor() const { return anchor_; }

 private:
  struct Step {
    VersionRecord record;
    Log replaced;
  };
  void forget();
  void work(const VersionRecord& record, bool with_anchor) noexcept;
  Status add_anchor(const VersionRecord& record);
  bool has_skips_at(const VersionRecord& record) const;
  Status put_skips(const VersionRecord& record);
  Status write_all(const VersionRecord& record, bool with_anchor);
  Status prune_old();
  Status put_skip(const VersionRecord& record, std::uint64_t length);

  Chain chain_;
  ChainState state_;
  std::string writer_;
  Plan plan_;
  EffortChoice effort_;       // of skips
  std::deque<Step> history_;  // the last records, as long as their logs need less than a copy
  std::uint64_t history_bytes_ = 0;
  std::uint64_t attempts_ = 0;
  std::optional<Shortcut> anchor_;
  std::thread thread_;
};

}  // namespace sparcl::store
