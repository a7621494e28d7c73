#pragma once
// The records of a chain of versions in an object store.
//
//   commits/N           record N, written once: the version is published when it is there
//   shortcuts/N-FROM    another object that leads to record N's version, made afterwards
//   newest              the number of some late record, for readers that begin
//   pruned              up to which record the chain is being removed (retention.hpp)
//   deltas/..., skips/..., anchors/..., schemas/...    objects
//
// Numbers have no gap from the first record that is not pruned. So the next record is one look-up
// away. Nothing is listed, unless `newest` is damaged or very late.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/store/chain_trust.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

inline constexpr const char *kCommits = "commits", *kShortcuts = "shortcuts", *kNewest = "newest";

std::string commit_key(std::uint64_t number);
std::string shortcut_key(std::uint64_t number, std::uint64_t from);
// The number that a key ends with, before any '-'. 0: it has none.
std::uint64_t number_in(std::string_view key);

// Stale: the record is another writer's.
Status stopped(const VersionRecord& other);

// Damage: says also what repairs it.
Status with_repair_hint(const Status& status);

// Its calls are for one thread at a time.
class Chain {
 public:
  // The store outlives it. trust: nullptr: nothing is signed, and no signature is required.
  explicit Chain(ObjectStore& store, ChainTrustRef trust = nullptr)
      : store_(store),
        trust_(trust != nullptr ? std::move(trust) : std::make_shared<const ChainTrust>()) {}

  ObjectStore& store() const { return store_; }
  const ChainTrustRef& trust() const { return trust_; }

  // nullopt: nothing has been published. Remembers the record: the next call asks for later ones.
  // Corrupt, Unauthorized: it is damaged, or not signed by trusted keys; the text names the newest
  // version before it.
  Result<std::optional<VersionRecord>> newest();
  // The same for a reader of this version (0: the newest). If later records are damaged, it is the
  // last one that is not.
  Result<std::optional<VersionRecord>> newest_for(std::uint64_t version);
  // The record after the remembered one, which is then remembered: one request in place of two. If
  // it is of an earlier version than this one: newest(). nullopt: there is none, or nothing is
  // remembered.
  Result<std::optional<VersionRecord>> next_of(std::uint64_t version);
  // The number of the record that newest() remembers.
  std::optional<std::uint64_t> known() const {
    return newest_ ? std::optional(newest_->number) : std::nullopt;
  }
  // The next newest() asks for all again.
  void forget() { newest_.reset(); }
  // The record of a version up to this one; nullopt: there is none. Records on the way that are
  // damaged are passed over. Corrupt: the version's own may be one of them.
  Result<std::optional<VersionRecord>> find(std::uint64_t version, const VersionRecord& upto) const;
  // Corrupt: there is no such record, or it is none. Unauthorized, Mismatch: as ChainTrust says.
  Result<VersionRecord> record(std::uint64_t number) const;
  // nullopt: there is none.
  Result<std::optional<VersionRecord>> look(std::uint64_t number) const;
  // The first record's anchor, too. One that is not trusted counts as missing, and is logged.
  Result<std::optional<Shortcut>> shortcut(std::uint64_t number, std::uint64_t from) const;
  // The number of some late record, as it was noted; 0: it was not.
  Result<std::uint64_t> noted() const;
  // The first record that is not being removed.
  Result<std::uint64_t> oldest() const;

  // Keeps one that is there already. Signs it, as commit() does.
  Status add(Shortcut shortcut) const;
  // Returns the record that is there: this one, or the same writer's of the same bytes, from a call
  // whose answer was lost. Stale: another writer has published this number.
  Result<VersionRecord> commit(VersionRecord record) const;
  // Whether the store still has this record. Stale: it has another writer's.
  Status check_is_there(const VersionRecord& record) const;

 private:
  Status check_not_pruned(const VersionRecord& record) const;
  Result<std::optional<VersionRecord>> remember_newest();
  Result<std::optional<VersionRecord>> last_sound_upto(std::uint64_t number) const;
  Result<std::optional<VersionRecord>> sound_from(std::uint64_t& number, std::uint64_t end,
                                                  std::uint64_t& budget, Status& why) const;
  Status go_on();
  Result<std::optional<VersionRecord>> some_late_record() const;
  Result<std::uint64_t> last_listed() const;
  Result<std::optional<VersionRecord>> last_in_list() const;

  ObjectStore& store_;
  ChainTrustRef trust_;
  std::string hinted_message_, hint_;  // of newest()
  std::optional<VersionRecord> newest_;
};

}  // namespace sparcl::store
