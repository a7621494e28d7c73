#include "src/store/leaf_fetch.hpp"

#include <algorithm>

#include "src/base/caught_error.hpp"
#include "src/net/signals_blocked.hpp"
#include "src/store/object_cache.hpp"

namespace sparcl::store {
namespace {

// Heuristics: as many connections as S3RangePlan has, and memory that is used again.
constexpr unsigned kLeafThreads = 4;
constexpr std::size_t kJobsAhead = 8;
constexpr std::uint64_t kSegmentLeaves = Staging::kSegmentBytes / model::kLeafBytes;

}  // namespace

Result<std::unique_ptr<LeafFetch>> LeafFetch::begin(ObjectStore& store, const StoredObject& object,
                                                    const std::vector<model::Digest256>& leaves,
                                                    const std::vector<ByteRange>& ranges) try {
  std::unique_ptr<LeafFetch> made(new LeafFetch(store, object, leaves));
  made->add_jobs(ranges);
  made->bytes_.prepare(object.bytes);
  const net::SignalsBlocked blocked;
  for (std::size_t i = 0; i < std::min<std::size_t>(kLeafThreads, made->jobs_.size()); ++i)
    made->threads_.emplace_back([own = made.get()] { own->work(); });
  return made;
} catch (...) {
  return caught_error("no thread for reading an object of a store");
}

LeafFetch::~LeafFetch() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }
  for (std::thread& each : threads_) each.join();
}

void LeafFetch::add_jobs(const std::vector<ByteRange>& ranges) {
  std::uint64_t next = 0;  // the first leaf that no job has
  for (const auto& [first, last] : ranges) {
    if (first == last) continue;
    for (std::uint64_t leaf = std::max(next, first / model::kLeafBytes);
         leaf < model::leaf_count(last); ++leaf) {
      const bool goes_on =
          !jobs_.empty() && jobs_.back().last == leaf && leaf % kSegmentLeaves != 0;
      if (goes_on)
        ++jobs_.back().last;
      else
        jobs_.push_back({leaf, leaf + 1});
      next = leaf + 1;
      wanted_bytes_ += model::leaf_end(leaf, object_.bytes) - leaf * model::kLeafBytes;
    }
  }
}

// Takes the memory, too: in the order of the bytes.
bool LeafFetch::take_job(std::size_t& job) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return is_stopped_ || begun_ == jobs_.size() || begun_ < released_ + kJobsAhead;
  });
  if (is_stopped_ || begun_ == jobs_.size()) return false;
  job = begun_++;
  const std::uint64_t segment = jobs_[job].first / kSegmentLeaves;
  if (job == 0 || jobs_[job - 1].first / kSegmentLeaves != segment)
    bytes_.adopt(segment * Staging::kSegmentBytes, take_segment());
  return true;
}

void LeafFetch::work() {
  for (std::size_t job = 0;;) {
    Status status;
    try {
      if (!take_job(job)) return;
      status = read(jobs_[job]);
    } catch (...) {  // must not leave the thread
      status = caught_error("an object of a store could not be read");
    }
    const std::lock_guard lock(mutex_);
    jobs_[job].is_done = status.ok();
    while (done_ < jobs_.size() && jobs_[done_].is_done) ++done_;
    if (!status.ok() && error_.ok()) error_ = std::move(status);
    is_stopped_ = is_stopped_ || !error_.ok();
    changed_.notify_all();
  }
}

bool LeafFetch::read_from_cache(const Job& job, std::span<std::byte> into) const {
  if (store_.cache() == nullptr) return false;
  return store_.cache()->find_leaves(
      object_, job.first, std::span(leaves_).subspan(job.first, job.last - job.first), into);
}

Status LeafFetch::read(const Job& job) {
  const std::uint64_t first = job.first * model::kLeafBytes;
  const auto count = static_cast<std::size_t>(model::leaf_end(job.last - 1, object_.bytes) - first);
  const Buffer memory = bytes_.slice(first, count);
  const std::span<std::byte> into(memory.data(), count);
  if (read_from_cache(job, into)) return {};
  const std::string location = store_.location_of(object_.key);
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, store_.read(object_.key, first, into));
  if (!is_there) return Status(Code::kCorrupt, location + ": it is missing");
  for (std::uint64_t leaf = job.first; leaf < job.last; ++leaf) {
    const std::span<std::byte> own = into.subspan(
        static_cast<std::size_t>((leaf - job.first) * model::kLeafBytes),
        static_cast<std::size_t>(model::leaf_end(leaf, object_.bytes) - leaf * model::kLeafBytes));
    SPARCL_ASSIGN_OR_RETURN(const model::Digest256 digest, model::leaf_digest(own));
    if (digest != leaves_[static_cast<std::size_t>(leaf)])
      return Status(Code::kCorrupt,
                    location + ": its bytes are not those that were published (SHA-256)");
  }
  return {};
}

std::uint64_t LeafFetch::begin_of(std::size_t job) const {
  return job < jobs_.size() ? jobs_[job].first * model::kLeafBytes : object_.bytes;
}

std::uint64_t LeafFetch::wait(std::uint64_t known) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return begin_of(done_) > known || !error_.ok(); });
  return error_.ok() ? begin_of(done_) : known;
}

void LeafFetch::release(std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  bytes_.release(end);
  while (released_ < done_ && jobs_[released_].last * model::kLeafBytes <= end) ++released_;
  changed_.notify_all();
}

Status LeafFetch::status() {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace sparcl::store
