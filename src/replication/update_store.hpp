#pragma once
// The updates that a publisher keeps for replicas that are behind, or that a replica keeps for its
// children. The store also finds the update that brings a replica on with the fewest bytes.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/replication/message.hpp"
#include "src/replication/peer_budget.hpp"

namespace sparcl::replication {

// Its bytes count for the budget as long as one of its copies lives.
inline void charge_to(const PeerBudgetRef& budget, const Update& update) {
  if (update.charge == nullptr && budget != nullptr)
    update.charge = std::make_shared<PeerBudget::Charge>(budget, update.commit.stream_bytes);
}

class UpdateStore {
 public:
  struct Limits {
    std::size_t updates = 64;
    std::uint64_t bytes = UINT64_MAX;  // of all: a chain that is longer than an anchor is of no use
    std::uint64_t replaced_bytes =
        0;  // of what they have replaced, which all parts of a model share; 0: a quarter of `bytes`
  };
  // budget: takes what is kept here no more while sessions still send it; nullptr: none.
  explicit UpdateStore(const Limits& limits, PeerBudgetRef budget = nullptr)
      : limits_(limits), budget_(std::move(budget)) {
    if (limits_.replaced_bytes == 0) limits_.replaced_bytes = limits_.bytes / 4;
  }

  // The first version: no update leads to it but an anchor. label: empty, of a replica that holds
  // these bytes already.
  void begin(UpdateRef label);
  // `delta` leads from the newest version to the version of `label`; replaced: the rollback
  // (codec::ChangedState), if it is known.
  void add(UpdateRef delta, UpdateRef label, ChangeLogRef replaced = nullptr);
  // An anchor of the newest version at that time. Dropped again when the chain since then is longer
  // than a new one would be.
  void keep_anchor(UpdateRef anchor) {
    note_made(*anchor);
    drop_anchor();
    anchor_ = std::move(anchor);
  }

  // Each update is replaced by what `anew` makes of it; nullptr: of none.
  void reissue(const std::function<UpdateRef(const UpdateRef&)>& anew);

  // In a replica: the next update that it is being sent, and that it is of no use after all.
  void pass_on(UpdateRef update);
  void take_back(const UpdateRef& update);
  // It holds this version, where no update has said so.
  void hold(const HeldVersion& held) {
    if (!newest_) newest_ = held;
  }
  void clear();
  // The oldest update is kept no more; the newest stays. False: there is no other that no session
  // sends.
  bool drop_idle();
  // No replica takes from it: whole updates need not be kept.
  void keep_incoming_only();

  const UpdateRef& label() const { return label_; }  // of the newest version, in a publisher
  bool has_newest_anchor() const {
    return anchor_ != nullptr && newest_ && anchor_->target() == *newest_;
  }
  // The anchor is whole, and no session sends it.
  bool has_idle_anchor() const {
    return anchor_ != nullptr && anchor_.use_count() == 1 && anchor_->missing_bytes == 0;
  }
  void drop_anchor() {
    let_go(anchor_);
    anchor_ = nullptr;
  }
  bool keeps(const UpdateRef& update) const;

  const std::optional<HeldVersion>& newest() const { return newest_; }
  // From which the last update leads on; nothing: none is kept.
  std::optional<HeldVersion> before_newest() const {
    return chain_.empty() ? std::nullopt : std::optional(chain_.back()->base());
  }

  // The next update on the way from `held` to the newest version: a delta, one composed of several,
  // the label where only the number differs, or an anchor. needs_anchor: none is kept, and only a
  // new one leads there. may_be_composed: one update for the rest of the chain would be less, maybe
  // (rollback_logs()). If `held` is newer than all that is kept here: nothing yet. up_to: if this
  // version is in the chain, only the chain itself leads beyond it.
  struct Step {
    UpdateRef update;
    bool needs_anchor = false;
    bool may_be_composed = false;
    bool is_composed = false;

    bool brings_all() const {
      return needs_anchor || (update != nullptr && update->commit.is_anchor);
    }
  };
  Step step_from(const HeldVersion& held, std::uint64_t up_to = UINT64_MAX) const;
  // From the newest version to `held`, whose hash alone counts: what each update since then has
  // replaced, in their order. Empty where that is not known.
  std::vector<ChangeLogRef> rollback_logs(const HeldVersion& held) const;
  // The same from the newest version to the one of this number.
  std::vector<ChangeLogRef> logs_since(std::uint64_t version) const;
  // The newest version, or one that the chain leads on from, with these bytes.
  std::optional<HeldVersion> find(const Hash128& hash) const;
  // The same by its number.
  std::optional<HeldVersion> find_version(std::uint64_t version) const;
  // The number of the version to which the chain leads from `version`; nothing: `version` is not in
  // the chain.
  std::optional<std::uint64_t> version_after(std::uint64_t version) const;
  // One update instead of all since `held`. nullptr: it would not be worth it.
  void keep_composed(const HeldVersion& held, UpdateRef composed);

  // By an anchor of a version after this one; needs_anchor: only if there can be one.
  Step step_by_anchor(std::uint64_t after) const;
  // The last kMaxMade updates that were made here, as they are announced; the first of them has the
  // number first_made().
  const std::deque<Offer>& made() const { return made_; }
  std::uint64_t first_made() const { return first_made_; }
  static constexpr std::size_t kMaxMade = 256;
  // One of the versions that were published here (the last kMaxPublished of them), or that updates
  // here lead from or to.
  bool knows(const HeldVersion& held) const;
  static constexpr std::size_t kMaxPublished = 4096;

  std::size_t updates() const { return chain_.size(); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Composed {
    Hash128 base;
    UpdateRef update;  // or nullptr
  };

  void note_published(const HeldVersion& version);
  void note_made(const Update& update);
  std::size_t find_base(const Hash128& hash) const;
  std::size_t find_step(std::uint64_t version) const;  // from the version of this number
  std::vector<ChangeLogRef> logs_from(std::size_t first) const;
  std::uint64_t bytes_since(std::size_t first) const;
  bool anchor_is_less_than(std::size_t first,
                           std::uint64_t bytes) const;  // than a way from there that has so many
  Step step_in_chain(std::size_t first, std::uint64_t up_to) const;
  const Composed* find_composed(const Hash128& base) const;
  void let_go(const UpdateRef& update) const;
  void drop_first();
  void trim();
  void trim_composed();

  Limits limits_;
  PeerBudgetRef budget_;
  std::deque<UpdateRef> chain_;             // each from the target of the one before
  std::deque<ChangeLogRef> rollback_logs_;  // of each of them; nullptr: not known, or dropped
  std::uint64_t rollback_bytes_ = 0;
  std::deque<Composed> composed_;  // each from a base in the chain
  std::uint64_t bytes_ = 0;
  std::optional<HeldVersion> newest_;
  std::deque<HeldVersion> published_;  // ascending
  std::deque<Offer> made_;
  std::uint64_t first_made_ = 0;
  UpdateRef label_;
  UpdateRef anchor_;
};

}  // namespace sparcl::replication
