#include "src/base/worker_pool.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <system_error>

#include "src/base/settings.hpp"

namespace sparcl {
namespace {

unsigned count_allowed_cores() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return 1;
  const std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)> owner(
      topology, hwloc_topology_destroy);
  if (hwloc_topology_load(topology) != 0) return 1;
  const std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)> allowed(hwloc_bitmap_alloc(),
                                                                              hwloc_bitmap_free);
  if (allowed == nullptr || hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return 1;
  unsigned cores = 0;
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_CORE, core)) != nullptr;) {
    cores += hwloc_bitmap_intersects(core->cpuset, allowed.get()) != 0;
  }
  return std::max(cores, 1u);
}

// The next round comes soon, or after a long while. A thread that sleeps at once wakes up later
// than the work takes. Heuristic.
template <class Ready>
void wait_for_a_moment(Ready ready) {
  constexpr auto kMoment = std::chrono::microseconds(50);
  const auto end = std::chrono::steady_clock::now() + kMoment;
  while (!ready() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

Result<unsigned> threads_setting() {
  SPARCL_ASSIGN_OR_RETURN(const double threads, setting_number("THREADS"));
  if (threads <= kMaxThreads && threads == static_cast<unsigned>(threads))
    return static_cast<unsigned>(threads);
  return Status(
      Code::kInvalidArgument,
      fmt::format("SPARCL_THREADS={}: expected a whole number up to {}", threads, kMaxThreads));
}

unsigned allowed_cores() {
  static const unsigned cores = count_allowed_cores();
  return cores;
}

WorkerPool::WorkerPool(unsigned threads) {
  const unsigned wanted = threads == 0 ? allowed_cores() : threads;
  threads_.reserve(wanted - 1);
  try {
    for (unsigned i = 1; i < wanted; ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (const std::system_error&) {
    // Fewer threads suffice.
  } catch (const std::bad_alloc&) {
    // The same; an exception that leaves here would end the program.
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(unsigned count, const std::function<void(unsigned)>& work) {
  if (count == 0) return;
  if (count > 1) {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    count_ = count;
    left_ = count - 1;
    ++round_;
  }
  if (count > 1) begun_.notify_all();
  work(0);
  if (count < 2) return;
  wait_for_a_moment([this] { return left_ == 0; });
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return left_ == 0; });
}

void WorkerPool::serve(unsigned number) {
  for (std::uint64_t seen = 0;;) {
    wait_for_a_moment([&] { return ends_ || round_ != seen; });
    std::unique_lock lock(mutex_);
    begun_.wait(lock, [&] { return ends_ || round_ != seen; });
    if (ends_) return;
    seen = round_;
    if (number >= count_) continue;
    const std::function<void(unsigned)>& work = *work_;
    lock.unlock();
    work(number);
    lock.lock();
    if (--left_ == 0) done_.notify_one();
  }
}

}  // namespace sparcl
