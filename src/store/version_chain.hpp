#pragma once
// The records of a chain of versions in an object store, and the objects that they name.
//
//   commits/N    record N, written once: the version is published when it is there
//   newest       the number of some late record, for readers that begin
//   deltas/..., anchors/..., schemas/...    objects
//
// Numbers have no gap. So the next record is one look-up away, and nothing is listed.

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/staging.hpp"
#include "src/model/version_update.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

// An object that leads to a record's version: its anchor, or its delta from the version before.
struct ChainStep {
  VersionRecord record;
  bool is_anchor = false;
  const StoredObject& object() const { return is_anchor ? *record.anchor : *record.delta; }
};

// Stale: the record is another writer's.
Status stopped(const VersionRecord& other);

class Chain {
 public:
  // The store outlives it.
  explicit Chain(ObjectStore& store) : store_(store) {}

  ObjectStore& store() const { return store_; }

  // nullopt: nothing has been published.
  Result<std::optional<VersionRecord>> newest() const;
  // Corrupt: there is no such record, or it is none.
  Result<VersionRecord> record(std::uint64_t number) const;
  // The fewest bytes from what is held to the target: deltas from there, or from an anchor.
  Result<std::vector<ChainStep>> steps_to(const VersionRecord& target,
                                          const std::optional<model::HeldVersion>& held) const;

  // Puts bytes under a key, which no other writer uses.
  Result<StoredObject> put(const std::string& key, const Staging& bytes, std::uint64_t count) const;
  // All bytes of an object, checked. Corrupt: they are not those of the record.
  Result<Staging> get(const StoredObject& object, std::uint64_t max_bytes) const;
  // The same without keeping them.
  Status check(const StoredObject& object) const;

  // Returns the record that is there: this one, or the same writer's of the same bytes, from a call
  // whose answer was lost. Stale: another writer has published this number.
  Result<VersionRecord> commit(const VersionRecord& record) const;

 private:
  // Reads leaf by leaf into buffer_for(first byte, count), which is called for each.
  template <class BufferFor>
  Status read_checked(const StoredObject& object, BufferFor&& buffer_for) const;
  Result<std::optional<VersionRecord>> look(std::uint64_t number) const;
  Result<std::uint64_t> hint() const;

  ObjectStore& store_;
};

}  // namespace sparcl::store
