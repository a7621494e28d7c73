#pragma once
// Leases: objects that say which records readers need (retention.hpp).

#include <cstdint>
#include <optional>
#include <string>

#include "src/store/object_store.hpp"

namespace sparcl::store {

inline constexpr std::int64_t kLeaseSeconds = 600;

// Of one reader. Where it may not write there is no lease, which is no error.
class Lease {
 public:
  explicit Lease(ObjectStore& store, std::int64_t seconds = kLeaseSeconds)
      : store_(store), seconds_(seconds) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // The records from this one on are needed, until the lease is too old. True: it was written by
  // this call. Then what is being pruned has to be read again.
  Result<bool> hold(std::uint64_t number);
  // Nothing is needed any more.
  void release();

 private:
  ObjectStore& store_;
  std::int64_t seconds_;
  std::string key_;  // empty: never written
  std::uint64_t number_ = 0;
  bool has_tried_ = false;
  std::int64_t tried_s_ = 0;  // by the clock of this machine
};

// The lease that needs the earliest record.
struct FirstLease {
  std::uint64_t number = 0;  // the record; 0: the lease is damaged, and needs all
  std::string key;
  std::int64_t until_s = 0;  // by the store's clock, unless it is renewed
};
// Of the leases of the last `seconds`; nullopt: there is none. Removes leases that have not been
// renewed for twice this time, and twice kLeaseSeconds.
Result<std::optional<FirstLease>> first_leased(ObjectStore& store, std::int64_t now_s,
                                               std::int64_t seconds);

}  // namespace sparcl::store
