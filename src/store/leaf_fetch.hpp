#pragma once
// Reads some leaves of an object whose leaves' digests are known, by several requests at once. Each
// leaf is checked before it is used.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/staging.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

class LeafFetch {
 public:
  using ByteRange = std::pair<std::uint64_t, std::uint64_t>;  // [first, second)
  // Of the leaves that have bytes of these ranges, which ascend and lie in the object. store and
  // leaves outlive it. Threads read ahead of release() by some leaves.
  static Result<std::unique_ptr<LeafFetch>> begin(ObjectStore& store, const StoredObject& object,
                                                  const std::vector<model::Digest256>& leaves,
                                                  const std::vector<ByteRange>& ranges);
  // Ends the reading after the present requests.
  ~LeafFetch();

  // The object, of which only the wanted leaves are there.
  const Staging& bytes() const { return bytes_; }
  // Until all wanted bytes up to some byte after `known` are there. Returns that byte; `known` if
  // there are no more, or after an error.
  std::uint64_t wait(std::uint64_t known);
  // Bytes before `end` are not used again.
  void release(std::uint64_t end);
  // Corrupt: the object is missing, is too short, or a leaf is not what its digest says.
  Status status();
  // Of the leaves, those from a cache included.
  std::uint64_t wanted_bytes() const { return wanted_bytes_; }

 private:
  // Neighbouring leaves in one segment: one request.
  struct Job {
    std::uint64_t first = 0, last = 0;  // leaves [first, last)
    bool is_done = false;
  };
  LeafFetch(ObjectStore& store, const StoredObject& object,
            const std::vector<model::Digest256>& leaves)
      : store_(store), object_(object), leaves_(leaves) {}
  void add_jobs(const std::vector<ByteRange>& ranges);
  void work();
  bool take_job(std::size_t& job);
  Status read(const Job& job);
  bool read_from_cache(const Job& job, std::span<std::byte> into) const;
  std::uint64_t begin_of(std::size_t job) const;

  ObjectStore& store_;
  const StoredObject object_;
  const std::vector<model::Digest256>& leaves_;
  std::uint64_t wanted_bytes_ = 0;
  Staging bytes_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  std::size_t begun_ = 0, done_ = 0, released_ = 0;  // jobs; done_: the first that is not
  bool is_stopped_ = false;
  Status error_;
  std::vector<std::thread> threads_;  // the last member
};

}  // namespace sparcl::store
