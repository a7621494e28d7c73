#pragma once
// The source of all that replicas of one list of tensors are sent: all tensors of a publisher, or
// parts of them. A feed keeps updates, plans which replica takes from which, and makes anchors,
// composed updates and repairs. It has no copy of any tensor: all is read from the publisher's
// snapshot.

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/slice_place.hpp"
#include "src/replication/fan_out.hpp"
#include "src/replication/identities.hpp"
#include "src/replication/issuer.hpp"
#include "src/replication/repair.hpp"
#include "src/replication/replicated_state.hpp"
#include "src/replication/session.hpp"
#include "src/replication/update_maker.hpp"
#include "src/replication/update_store.hpp"
#include "src/replication/version_view.hpp"

namespace sparcl::replication {

// A version as it goes out, and what may be taken back.
struct Edition : model::VersionEdition {
  // Its end takes back what it has written into the publisher's snapshot, until keep_forward().
  // nullptr: nothing was written.
  std::unique_ptr<codec::UpdateEncoder> written;
};

class Feed final : public model::VersionSink {
 public:
  struct Options {
    std::size_t queue = 64;  // updates kept
    int fan_out = 0;
    PeerBudgetRef budget = std::make_shared<PeerBudget>();  // of the publisher
  };
  using Tensors =
      std::span<std::byte* const>;  // of the snapshot: all tensors of the newest version

  // A feed of all tensors. issuer and what `whole` points to outlive the feed.
  Feed(const Issuer& issuer, const ReplicatedState& whole, const Options& options);
  // A feed of the tensors and slices of `schema`, whose number check_count() takes. Mismatch names
  // the first that is not inside of `held`, the whole's.
  static Result<std::shared_ptr<Feed>> of_parts(const Issuer& issuer, const ReplicatedState& whole,
                                                const model::Schema& held,
                                                std::span<const std::byte> schema,
                                                const Options& options);
  // Before it is parsed: it begins with its count.
  static Status check_count(std::span<const std::byte> schema, const model::Schema& held);
  // That are kept of such a schema; 0: it is none.
  static std::uint64_t list_bytes(std::span<const std::byte> schema);
  // At most, of a schema of_parts() takes.
  static std::uint64_t max_schema_bytes(const model::Schema& held);
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  const SessionFeed& session_feed() const { return session_feed_; }
  const UpdateStore& store() const { return store_; }
  FanOut& fan_out() { return fan_out_; }
  std::uint64_t tensor_bytes() const { return map_->byte_count(); }
  // An update of all of them has, at most: what frames the blocks counts, too.
  std::uint64_t copy_bytes() const { return tensor_bytes() + tensor_bytes() / 256 + 4096; }
  std::optional<HeldVersion> newest() const override { return store_.newest(); }
  // The work of a version for it: a slice costs as much as some bytes.
  std::uint64_t encoded_bytes() const { return tensor_bytes() + places_.size() * kSliceBytes; }

  // --- what publish() does, beside the serving of replicas; write() is not ---

  // For the whole model: `to` becomes `version`, and `before`, the newest one, is brought forward
  // to it.
  Result<Edition> encode(std::uint64_t version, Tensors before, const codec::ArrayInput& to,
                         std::span<const codec::ChangedHint* const> hints) const;
  // The same for a `to` that is known: `before` with these new values over it.
  Result<Edition> encode_known(std::uint64_t version, Tensors before, const codec::ArrayInput& to,
                               const codec::ChangeLog& changes) const;
  // Without a version before. newest: after that.
  Result<Edition> first_edition(std::uint64_t version, Tensors newest) const;
  void write(model::VersionEdition edition) override;
  void start_over() override;
  // The epoch has risen: all that is kept is of the new one. Work in progress is begun anew.
  void reissue();

  // --- what is made of the newest version beside the serving of replicas ---

  bool wants_work() const;
  // A feed of parts lacks versions that the whole has. begin_work() makes the next one.
  void fall_behind() { is_behind_ = store_.newest().has_value(); }
  bool wants_next() const { return is_behind_ && !(wants_anchor() && made_next_last_); }
  // For a damaged replica, or for one that comes with bytes: after everything that other replicas
  // wait for.
  bool wants_rest() const {
    return store_.newest() && !is_behind_ && (!repairs_.empty() || identities_.wants_work());
  }
  // whole: of all tensors; its newest version is in `newest`.
  void begin_work(const UpdateStore& whole, Tensors newest);
  // Work is not done yet; only give_up() or bring_forward() ends it before.
  bool has_begun() const { return hashing_ || maker_ != nullptr; }
  // Some milliseconds of it. False: it is done, as well as it can be.
  bool work();
  // The bytes that count for the budget of peers. For the whole model: repairs, and dropped updates
  // that a replica still needs. For a part: all updates.
  std::uint64_t update_bytes() const { return account_->used() - list_charge_.bytes(); }
  void prove() { list_charge_.prove(); }  // a replica has held a version of it
  bool drop_idle() { return store_.drop_idle(); }
  void drop_idle_anchor() {
    if (store_.has_idle_anchor()) store_.drop_anchor();
  }
  // The snapshot is about to be brought forward: of what is being made only a first version, an
  // anchor and the next version of parts goes on.
  void give_up();
  // The snapshot has been brought forward; replaced: what that has replaced. If nothing tells
  // (nullptr), or if that is too much, nothing goes on.
  void bring_forward(const ChangeLogRef& replaced);  // needs no memory to end
  // Versions came so fast that no anchor was made in time, several times: the next one waits.
  bool is_owed_anchor() const { return anchor_is_wanted_ && outrun_ >= kMaxOutrun; }

 private:
  struct Hashing {
    std::uint64_t version = 0;
    UpdateMaker::Arrays arrays;
    std::uint64_t next_block = 0;
    Hash128 sum;
  };

  static constexpr std::uint64_t kSliceBytes = 4096;  // heuristic
  static constexpr int kMaxOutrun = 2;                // heuristic

  struct SchemaHashes {
    Hash128 hash;
    Digest256 digest;
  };
  Feed(const Issuer& issuer, const ReplicatedState& whole, std::unique_ptr<codec::BlockMap> map,
       const SchemaHashes& schema, std::vector<model::PlacedSlice> places, const Options& options);

  bool is_whole() const { return own_map_ == nullptr; }
  Commit commit_of(const HeldVersion& base, std::uint64_t version) const;
  Result<UpdateRef> make_label(const HeldVersion& held) const;
  // This feed's arrays.
  UpdateMaker::Arrays newest_arrays(Tensors tensors) const;
  std::shared_ptr<const codec::ArraySource> earlier(Tensors tensors,
                                                    std::vector<ChangeLogRef> replaced) const;
  Result<Edition> code(std::uint64_t version, const codec::ArrayInput& from,
                       const codec::ArrayInput& to, codec::EncodeOptions options) const;
  UpdateMaker::Arrays view(Tensors tensors, std::vector<ChangeLogRef> replaced);
  void begin_first(const UpdateStore& whole, Tensors newest);
  void begin_next(const UpdateStore& whole, Tensors newest);
  void begin_anchor(const UpdateStore& whole, Tensors newest);
  void begin_composed(Tensors newest);
  void begin_repair(Tensors newest);
  void repair_on();
  std::uint64_t repair_bytes();
  void put_repair_off();
  std::optional<HeldVersion> at_hand(std::optional<HeldVersion> version) const;
  IdentityAnswer identify(const Hash128& hash, const std::optional<std::uint64_t>& nearly);
  std::optional<UpdateMaker::Arrays> arrays_of(const HeldVersion& version, Tensors newest) const;
  bool identify_on();
  void hash_on();
  void fail(const char* why);
  Status keep_made(std::shared_ptr<Update> made, StreamDigest& digest);
  Status keep_next(UpdateMaker& done);
  void end_making(Status status);
  void forget_work();
  bool wants_anchor() const { return anchor_is_wanted_ && !store_.has_newest_anchor(); }
  bool makes_anchor() const { return maker_ != nullptr && maker_->commit().is_anchor; }

  const Issuer& issuer_;
  const codec::BlockMap& whole_map_;
  std::unique_ptr<codec::BlockMap> own_map_;  // of parts
  const codec::BlockMap* map_;
  std::vector<model::PlacedSlice> places_;  // of parts
  ReplicatedState state_;                   // its arrays are elsewhere
  PeerBudgetRef account_;
  PeerBudget::Charge list_charge_;  // of parts: how they lie
  UpdateStore store_;
  FanOut fan_out_;
  SessionFeed session_feed_;

  bool anchor_is_wanted_ = false;
  std::optional<HeldVersion> composed_is_wanted_;  // of all updates since then
  bool is_behind_ = false;
  bool made_next_last_ = false;  // of parts: an anchor has its turn
  int outrun_ = 0;
  std::optional<Hashing> hashing_;
  std::unique_ptr<UpdateMaker> maker_;
  std::vector<std::shared_ptr<VersionView>> views_;  // of these two
  bool is_next_ = false;        // maker_ makes the next version of parts, which replaces
  ChangeLogRef next_replaced_;  // these values; nullptr: not known
  bool is_turn_of_identities() const { return repaired_last_ && identities_.wants_work(); }

  std::deque<std::weak_ptr<Repair>> repairs_;  // that are wanted: their sessions'
  std::unique_ptr<RepairMaker> repairer_;
  bool repaired_last_ = false;  // since a digest was made: each lets one repair pass, no more
  std::vector<std::weak_ptr<const Update>> made_repairs_;
  Identities identities_;
};

}  // namespace sparcl::replication
