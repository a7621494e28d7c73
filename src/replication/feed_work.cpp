// The work of a feed on the newest version, piece by piece, beside the serving of replicas.
// Versions that are published meanwhile do not wait for it.

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "src/base/log.hpp"
#include "src/codec/changed_state.hpp"
#include "src/codec/state_hash.hpp"
#include "src/model/slice_source.hpp"
#include "src/replication/feed.hpp"

namespace sparcl::replication {
namespace {

constexpr std::uint64_t kHashedBlocks = 256;  // some milliseconds; heuristic
constexpr double kMaxDistinct =
    0.9;  // of several updates' changes: composing them would spare less; heuristic
constexpr std::uint64_t kRepairsPart =
    2;  // of all bytes, which repairs may have: then all bytes are sent, which all share; heuristic
constexpr std::uint64_t kViewPart =
    2;  // of all bytes, which the logs over a version that something is made of may have; heuristic
constexpr std::size_t kMaxSteps = 8;  // of parts, one version after the other; heuristic

}  // namespace

bool Feed::wants_work() const {
  return !store_.newest() || is_behind_ || wants_anchor() || composed_is_wanted_;
}

void Feed::begin_work(const UpdateStore& whole, Tensors tensors) try {
  if (!store_.newest()) {
    begin_first(whole, tensors);
  } else if (wants_next()) {
    begin_next(whole, tensors);
  } else if (wants_anchor()) {
    begin_anchor(whole, tensors);
  } else if (composed_is_wanted_) {
    begin_composed(tensors);
  } else if (!repairs_.empty() && !is_turn_of_identities()) {
    repaired_last_ = true;
    begin_repair(tensors);
  } else {
    identities_.begin(arrays_of(identities_.next(), tensors));
  }
} catch (const std::exception& error) {
  fail(error.what());
}

// A version of these tensors, which stays it when the snapshot is brought forward.
UpdateMaker::Arrays Feed::view(Tensors tensors, std::vector<ChangeLogRef> replaced) {
  auto whole =
      std::make_shared<VersionView>(whole_map_, tensors, std::move(replaced), *state_.kernels);
  views_.push_back(whole);
  std::vector<const std::byte*> nowhere(map_->arrays().size(), nullptr);
  if (is_whole()) return {std::move(nowhere), std::move(whole)};
  return {std::move(nowhere),
          std::make_shared<model::SliceSource>(
              places_, *map_, std::vector<const std::byte*>(tensors.size(), nullptr),
              std::move(whole))};
}

void Feed::begin_first(const UpdateStore& whole, Tensors tensors) {
  hashing_ = Hashing{whole.newest()->version, view(tensors, {}), 0, state_.schema_hash};
}

// The whole's next version, if the steps to it are few: the newest one otherwise, by one update. If
// no way is known, the replicas of these parts start over.
void Feed::begin_next(const UpdateStore& whole, Tensors tensors) {
  is_behind_ = false;
  const HeldVersion own = *store_.newest();
  if (own.version >= whole.newest()->version) return;
  std::vector<ChangeLogRef> logs = whole.logs_since(own.version);
  if (logs.empty()) return start_over();
  const bool is_one_step = logs.size() > 1 && logs.size() <= kMaxSteps;
  const std::optional<std::uint64_t> next =
      is_one_step ? whole.version_after(own.version) : std::optional(whole.newest()->version);
  if (!next) return start_over();
  made_next_last_ = true;
  std::vector<ChangeLogRef> later;
  if (is_one_step) later.assign(logs.begin() + 1, logs.end());
  is_behind_ = is_one_step;
  // If one update replaces what several have replaced, the first of them tells nothing alone.
  next_replaced_ = is_one_step || logs.size() == 1 ? logs.front() : nullptr;
  is_next_ = true;
  UpdateMaker::Arrays target = view(tensors, std::move(later));
  maker_ = std::make_unique<UpdateMaker>(
      state_, std::move(target), view(tensors, std::move(logs)).source, commit_of(own, *next));
  maker_->charge_to(account_, std::min(whole.bytes(), copy_bytes()));
}

void Feed::begin_anchor(const UpdateStore& whole, Tensors tensors) {
  made_next_last_ = false;
  std::vector<ChangeLogRef> since;
  if (is_behind_) {
    since = whole.logs_since(store_.newest()->version);
    if (since.empty()) return start_over();
  }
  maker_ = std::make_unique<UpdateMaker>(state_, view(tensors, std::move(since)), nullptr,
                                         commit_of({}, store_.newest()->version));
  if (!is_whole()) maker_->charge_to(account_, copy_bytes());
}

// Not if it would not be worth it.
void Feed::begin_composed(Tensors tensors) {
  const HeldVersion base = *composed_is_wanted_;
  std::vector<ChangeLogRef> logs = store_.rollback_logs(base);
  if (logs.empty() || codec::distinct_part(logs, whole_map_.block_count()) > kMaxDistinct)
    return give_up();
  maker_ = std::make_unique<UpdateMaker>(state_, newest_arrays(tensors),
                                         earlier(tensors, std::move(logs)),
                                         commit_of(base, store_.newest()->version));
  if (!is_whole()) maker_->charge_to(account_, copy_bytes());
}

// The repair leads to the version that the replica held, because the chain leads on from there. If
// that is not possible, it leads to the newest version.
void Feed::begin_repair(Tensors tensors) {
  const RepairRef repair = repairs_.front().lock();
  if (repair == nullptr) return repairs_.pop_front();
  const std::uint64_t max_bytes = map_->byte_count() / kRepairsPart;
  if (++repair->attempts > kMaxRepairAttempts || repair_bytes() > max_bytes ||
      !account_->has_room(max_bytes)) {
    repair->is_over = true;
    return repairs_.pop_front();
  }
  const HeldVersion target = store_.find(repair->wanted.hash).value_or(*store_.newest());
  std::optional<UpdateMaker::Arrays> arrays = arrays_of(target, tensors);
  Commit commit =
      commit_of({0, repair->held_hash}, arrays ? target.version : store_.newest()->version);
  commit.target_hash = arrays ? target.hash : store_.newest()->hash;
  if (!arrays) arrays = newest_arrays(tensors);
  repairer_ = std::make_unique<RepairMaker>(state_, std::move(*arrays), repair, std::move(commit));
  repairs_.pop_front();  // now: memory may have run out before
}

// Bytes of the repairs that are still being sent: each is for one replica.
std::uint64_t Feed::repair_bytes() {
  std::erase_if(made_repairs_, [](const auto& each) { return each.expired(); });
  std::uint64_t bytes = 0;
  for (const auto& each : made_repairs_) bytes += each.lock()->commit.stream_bytes;
  return bytes;
}

void Feed::repair_on() {
  if (repairer_->repair().use_count() == 1) return repairer_.reset();  // its session is over
  const RepairRef repair = repairer_->repair();
  const Result<bool> over = repairer_->step();
  if (over.ok() && !*over) return;
  Status status = over.status();
  std::shared_ptr<Update> made = over.ok() ? repairer_->take() : nullptr;
  if (made != nullptr) status = issuer_.seal(*made, repairer_->digest());
  if (!status.ok())
    log_error("replication: a damaged replica is sent all bytes: {}", status.message());
  if (status.ok() && made != nullptr) {
    charge_to(account_, *made);
    made_repairs_.push_back(made);
    repair->update = std::move(made);
  }
  repair->is_over = true;
  repairer_ = nullptr;
}

// The version that it was made of lies elsewhere now.
void Feed::put_repair_off() {
  if (repairer_ != nullptr) repairs_.push_front(repairer_->repair());
  repairer_ = nullptr;
}

// --- what a version's bytes are, for replicas that come with some ---

// Where they lie, or can be had; nothing: the rollback to them is not kept.
std::optional<UpdateMaker::Arrays> Feed::arrays_of(const HeldVersion& version,
                                                   Tensors tensors) const {
  if (version.hash == store_.newest()->hash) return newest_arrays(tensors);
  std::vector<ChangeLogRef> logs = store_.rollback_logs(version);
  if (logs.empty()) return {};
  return UpdateMaker::Arrays{std::vector<const std::byte*>(map_->arrays().size(), nullptr),
                             earlier(tensors, std::move(logs))};
}

// If its bytes can be had.
std::optional<HeldVersion> Feed::at_hand(std::optional<HeldVersion> version) const {
  if (version && version->hash != store_.newest()->hash && store_.rollback_logs(*version).empty())
    version.reset();
  return version;
}

IdentityAnswer Feed::identify(const Hash128& hash, const std::optional<std::uint64_t>& nearly) {
  std::optional<HeldVersion> of = at_hand(store_.find(hash));
  if (!of && nearly) of = at_hand(store_.find_version(*nearly));
  if (!of && nearly) of = store_.newest();
  return identities_.find(of ? of->hash : hash, of);
}

// False: it is made, or others wait for something.
bool Feed::identify_on() {
  if (wants_work() || (!repairs_.empty() && !repaired_last_)) {
    identities_.rest(Identities::Rest::kForOthers);
    return false;
  }
  std::optional<Identity> made = identities_.work(*map_);
  if (made) {
    made->model_id = issuer_.model_id;
    made->epoch = issuer_.epoch;
    made->signatures = issuer_.sign(signed_bytes(*made));
    identities_.keep(std::move(*made));
    repaired_last_ = false;
  }
  return identities_.is_at_work();
}

bool Feed::work() try {
  if (hashing_) hash_on();
  if (repairer_ != nullptr) {
    repair_on();
    return repairer_ != nullptr;
  }
  if (maker_ == nullptr && identities_.is_at_work()) return identify_on();
  if (maker_ == nullptr) return hashing_.has_value();
  const Result<bool> whole = maker_->step();
  if (whole.ok() && !*whole) return true;
  end_making(whole.status());
  return false;
} catch (const std::exception& error) {
  fail(error.what());
  return false;
}

void Feed::end_making(Status status) {
  const std::unique_ptr<UpdateMaker> done = std::move(maker_);
  const bool is_anchor = done->commit().is_anchor, is_next = is_next_;
  if (status.ok()) status = is_next ? keep_next(*done) : keep_made(done->take(), done->digest());
  if (!status.ok())
    log_error("replication: no {} could be made: {}",
              is_anchor ? "anchor"
              : is_next ? "version of parts"
                        : "composed update",
              status.message());
  forget_work();
  if (is_anchor) {
    anchor_is_wanted_ = false;
    outrun_ = 0;
  } else if (is_next) {
    if (!status.ok()) start_over();
  } else {
    if (!status.ok()) give_up();
    composed_is_wanted_.reset();
  }
}

// There was no memory, as likely as not. Sessions that wait ask again.
void Feed::fail(const char* why) {
  log_error("replication: nothing can be made of the newest version: {}", why);
  const bool made_anchor = makes_anchor(), made_next = is_next_;
  forget_work();
  if (identities_.is_at_work()) identities_.give_up();
  if (made_anchor) anchor_is_wanted_ = false;
  if (made_next) start_over();
  give_up();
}

void Feed::hash_on() {
  const std::uint64_t end = std::min(hashing_->next_block + kHashedBlocks, map_->block_count());
  hashing_->sum = hashing_->sum + codec::blocks_hash(*map_, hashing_->arrays.input(),
                                                     hashing_->next_block, end, *state_.kernels);
  hashing_->next_block = end;
  if (end < map_->block_count()) return;
  Result<UpdateRef> label = make_label({hashing_->version, hashing_->sum});
  forget_work();
  if (!label.ok())
    return log_error("replication: no replica can be served: {}", label.status().message());
  store_.begin(std::move(*label));
  is_behind_ = true;  // the whole may have later versions
}

Status Feed::keep_made(std::shared_ptr<Update> made, StreamDigest& digest) {
  const HeldVersion base = made->base();
  const std::optional<HeldVersion> wanted = store_.find_version(made->commit.version);
  if (!wanted) return {};  // the chain does not lead on from it any more
  if (made->target() != *wanted) {
    return Status(
        Code::kInternalError,
        fmt::format("it leads to the state {}, not to version {}'s, {}",
                    to_hex(made->commit.target_hash), wanted->version, to_hex(wanted->hash)));
  }
  SPARCL_RETURN_IF_ERROR(issuer_.seal(*made, digest));
  if (made->commit.is_anchor) {
    store_.keep_anchor(std::move(made));
    return {};
  }
  log_debug("replication: versions {} to {} as one update of {} bytes", base.version,
            made->commit.version, made->commit.stream_bytes);
  store_.keep_composed(base, std::move(made));
  return {};
}

Status Feed::keep_next(UpdateMaker& done) {
  std::shared_ptr<Update> made = done.take();
  SPARCL_RETURN_IF_ERROR(issuer_.seal(*made, done.digest()));
  SPARCL_ASSIGN_OR_RETURN(UpdateRef label, make_label(made->target()));
  store_.add(std::move(made), std::move(label), next_replaced_);
  return {};
}

void Feed::forget_work() {
  hashing_.reset();
  maker_ = nullptr;
  next_replaced_ = nullptr;
  is_next_ = false;
  views_.clear();
}

void Feed::bring_forward(const ChangeLogRef& replaced) {
  if (views_.empty()) return;
  bool goes_on = replaced != nullptr;
  try {
    for (const auto& each : views_) {
      if (goes_on) each->bring_forward(replaced);
      goes_on = goes_on && each->log_bytes() <= whole_map_.byte_count() / kViewPart;
    }
  } catch (const std::bad_alloc&) {
    goes_on = false;  // the version is there all the same
  }
  if (goes_on) return;
  if (makes_anchor()) ++outrun_;
  if (is_next_) start_over();
  forget_work();
}

// Replicas that wait for a composed update take one after the other.
void Feed::give_up() {
  put_repair_off();
  identities_.rest(Identities::Rest::kForAVersion);
  if (!composed_is_wanted_) return;
  if (!makes_anchor() && !is_next_) maker_ = nullptr;
  store_.keep_composed(*composed_is_wanted_, nullptr);
  composed_is_wanted_.reset();
}

}  // namespace sparcl::replication
