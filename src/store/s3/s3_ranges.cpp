#include "src/store/s3/s3_ranges.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/caught_error.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/store/s3/s3_range.hpp"

namespace sparcl::store {
namespace {

// Threads fetch ranges in turn; range i waits in slot i mod connections until it is taken.
class RangeFetch {
 public:
  RangeFetch(S3Client& client, const std::string& key, std::uint64_t first,
             std::uint64_t object_bytes, const S3RangePlan& plan)
      : client_(client),
        key_(key),
        first_(first),
        object_bytes_(object_bytes),
        range_bytes_(plan.range_bytes),
        count_((object_bytes - first + plan.range_bytes - 1) / plan.range_bytes),
        slots_(plan.connections) {
    const net::SignalsBlocked blocked;
    for (unsigned i = 0; i < plan.connections && i < count_; ++i) {
      try {
        threads_.emplace_back([this] { work(); });
      } catch (...) {
        if (threads_.empty()) throw;  // else there are fewer
        break;
      }
    }
  }
  ~RangeFetch() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
      changed_.notify_all();
    }
    for (std::thread& each : threads_) each.join();
  }
  RangeFetch(const RangeFetch&) = delete;
  RangeFetch& operator=(const RangeFetch&) = delete;

  Result<bool> take_all(const std::function<Status(std::span<const std::byte>)>& take) {
    for (std::uint64_t range = 0; range < count_; ++range) {
      Slot& slot = slots_[static_cast<std::size_t>(range % slots_.size())];
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return slot.is_full; });
      }
      if (!slot.result.ok() || !*slot.result) return slot.result;
      SPARCL_RETURN_IF_ERROR(take(slot.bytes));
      const std::lock_guard lock(mutex_);
      slot.is_full = false;
      taken_ = range + 1;
      changed_.notify_all();
    }
    return true;
  }

 private:
  struct Slot {
    std::vector<std::byte> bytes;
    Result<bool> result = false;
    bool is_full = false;  // guarded; the fields before belong to the thread that fetches until it
                           // is set, and to the one that takes until it is cleared
  };

  void work() {
    for (;;) {
      std::uint64_t range = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] {
          return is_stopped_ || begun_ == count_ || begun_ < taken_ + slots_.size();
        });
        if (is_stopped_ || begun_ == count_) return;
        range = begun_++;
      }
      Slot& slot = slots_[static_cast<std::size_t>(range % slots_.size())];
      try {
        slot.result = fetch(range, slot.bytes);
      } catch (...) {  // must not leave the thread
        slot.result = caught_error("a range of an object could not be read");
      }
      const std::lock_guard lock(mutex_);
      slot.is_full = true;
      changed_.notify_all();
    }
  }
  Result<bool> fetch(std::uint64_t range, std::vector<std::byte>& bytes) {
    const std::uint64_t at = first_ + range * range_bytes_;
    const std::uint64_t count = std::min(range_bytes_, object_bytes_ - at);
    bytes.clear();
    bytes.reserve(static_cast<std::size_t>(count));
    return read_s3_range(
        client_, {key_, at, count, object_bytes_}, [&](std::span<const std::byte> piece) -> Status {
          bytes.insert(bytes.end(), piece.begin(), piece.end());
          const std::lock_guard lock(mutex_);
          return is_stopped_ ? Status(Code::kInternalError, "it is not wanted") : Status();
        });
  }

  S3Client& client_;
  const std::string& key_;
  const std::uint64_t first_, object_bytes_, range_bytes_, count_;
  std::vector<Slot> slots_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::uint64_t begun_ = 0, taken_ = 0;  // ranges
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<bool> read_s3_ranges(S3Client& client, const std::string& key, std::uint64_t first,
                            std::uint64_t object_bytes, const S3RangePlan& plan,
                            const std::function<Status(std::span<const std::byte>)>& take) try {
  if (object_bytes - first <= plan.range_bytes || plan.connections < 2)
    return read_s3_range(client, {key, first, object_bytes - first, object_bytes}, take);
  return RangeFetch(client, key, first, object_bytes, plan).take_all(take);
} catch (...) {
  return caught_error("no thread for reading an object");
}

}  // namespace sparcl::store
