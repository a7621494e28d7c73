#pragma once
// The lease of a call that reads much of a chain: copies, checks, and the start of a writer.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "src/store/reader_lease.hpp"

namespace sparcl::store {

// While it lives, a thread renews the lease, and pruning removes no record from first() on. Without
// the right to write there is no lease, which is no error: then pruning waits once for its time.
class HeldLease {
 public:
  // On all records that are not being removed. seconds: how long pruning respects it.
  static Result<std::unique_ptr<HeldLease>> hold(ObjectStore& store, std::int64_t seconds);
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;
  ~HeldLease();  // releases it

  // The first record that is not being removed, since the lease is there.
  std::uint64_t first() const { return first_; }

 private:
  HeldLease(ObjectStore& store, std::int64_t seconds) : lease_(store, seconds), seconds_(seconds) {}
  void renew_until_end() noexcept;

  Lease lease_;  // of the thread, while it runs
  const std::int64_t seconds_;
  std::uint64_t needed_ = 0, first_ = 0;
  std::mutex ending_;  // guards is_over_
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace sparcl::store
