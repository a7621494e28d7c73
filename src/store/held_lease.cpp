#include "src/store/held_lease.hpp"

#include <algorithm>
#include <chrono>

#include "src/base/caught_error.hpp"
#include "src/base/log.hpp"
#include "src/store/pruned_marks.hpp"

namespace sparcl::store {

Result<std::unique_ptr<HeldLease>> HeldLease::hold(ObjectStore& store, std::int64_t seconds) {
  std::unique_ptr<HeldLease> made(new HeldLease(store, seconds));
  SPARCL_ASSIGN_OR_RETURN(made->needed_, oldest_record(store));
  SPARCL_RETURN_IF_ERROR(made->lease_.hold(made->needed_).status());
  SPARCL_ASSIGN_OR_RETURN(made->first_, oldest_record(store));
  try {
    made->thread_ = std::thread([own = made.get()] { own->renew_until_end(); });
  } catch (...) {
    log_info("a lease on the store's versions is not renewed: {}",
             caught_error("no thread").message());
  }
  return made;
}

HeldLease::~HeldLease() {
  {
    const std::lock_guard lock(ending_);
    is_over_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) thread_.join();
  lease_.release();
}

// Three times in the time of a lease, as lease_ itself wants it.
void HeldLease::renew_until_end() noexcept {
  const std::chrono::seconds period(std::max<std::int64_t>(seconds_ / 3, 1));
  std::unique_lock lock(ending_);
  while (!ended_.wait_for(lock, period, [&] { return is_over_; })) {
    lock.unlock();
    Status status;
    try {
      status = lease_.hold(needed_).status();
    } catch (...) {
      status = caught_error("a lease on the store's versions is not renewed");
    }
    if (!status.ok()) log_info("{}", status.message());
    lock.lock();
  }
}

}  // namespace sparcl::store
