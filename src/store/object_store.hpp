#pragma once
// The contract of object stores: named bytes that appear as a whole. Implementations: a directory
// of a file system that all readers and writers share (directory_store.hpp), and a bucket
// (s3/s3_store.hpp).
//
// Keys are paths of segments with / between them. A segment has letters, digits, '.', '_', '-' and
// '=', does not begin with '.', and has at most kMaxSegment characters. No key is the beginning of
// another key up to a '/'.
//
// Errors name the store and the key. Several processes may write to a store at once, and each call
// may come from any thread. After an error of put_if_absent() or replace() the object may be there:
// the caller reads it and compares.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::store {

constexpr std::size_t kMaxSegment = 128, kMaxKey = 512;  // characters
constexpr std::uint64_t kMaxListed = 10'000'000;         // entries of one list (a heuristic)

// InvalidArgument: it is no key, and why.
Status check_key(std::string_view key);

struct StoreCapabilities {
  // If several writers put one key, put_if_absent() succeeds for exactly one. Otherwise a second
  // writer may overwrite what the first has written.
  bool excludes_writers = false;
};

struct ObjectInfo {
  std::string key;
  std::uint64_t bytes = 0;
  std::int64_t written_s = 0;  // by the store's clock, in seconds since 1970
};

// Counts what a list has, so that it ends. location: for messages, with ": ".
class ListCount {
 public:
  explicit ListCount(std::string location) : location_(std::move(location)) {}
  // Corrupt: it is one too many.
  Status add();

 private:
  std::string location_;
  std::uint64_t count_ = 0;
};

// What opening does if there is no store.
enum class Missing : std::uint8_t { kIsMade, kIsAnError };

// The bytes of an object, one piece after the other.
using Pieces = std::span<const std::span<const std::byte>>;

// Where the bytes of an object go: in order, in pieces of kPieceBytes, the last one shorter.
// memory(first, count) gives the memory of the piece at byte `first`, and take(piece) is called
// when it is full. An error ends the reading, and is its result.
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
struct PieceSink {
  std::function<std::span<std::byte>(std::uint64_t first, std::size_t count)> memory;
  std::function<Status(std::span<const std::byte>)> take;
};

// A new object whose bytes come one after the other. Without finish() there will be none.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  // Copies or writes them.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  // Once, after the last byte and no error: as put_if_absent().
  virtual Result<bool> finish() = 0;
};

class ObjectCache;

// Whether time or bytes count on the way to the store. kMeasured: time, by what is measured. kFast:
// the time of coding. kMetered: the bytes.
enum class StoreLink : std::uint8_t { kMeasured, kFast, kMetered };

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Of objects whose digests are known (stored_object.hpp); nullptr: there is none.
  void set_cache(std::shared_ptr<ObjectCache> cache) { cache_ = std::move(cache); }
  ObjectCache* cache() const { return cache_.get(); }
  const std::shared_ptr<ObjectCache>& shared_cache() const { return cache_; }
  void set_link(StoreLink link) { link_ = link; }
  StoreLink link() const { return link_; }

  // Requests to a server end by then with Timeout, also if their own limit is later. nullopt: only
  // that one.
  using Deadline = std::chrono::steady_clock::time_point;
  virtual void set_deadline(std::optional<Deadline> deadline) { (void)deadline; }

  // Of writers: where it takes a test, that writes a small object, which is none of the store's.
  // Known after the first call.
  virtual Result<StoreCapabilities> capabilities() = 0;
  // The store's address and the key, for messages.
  virtual std::string location_of(std::string_view key) const = 0;

  // nullopt: there is no such object.
  virtual Result<std::optional<ObjectInfo>> look(const std::string& key) = 0;
  // All bytes of one version of a small object; nullopt: there is none. Corrupt: it has more than
  // max_bytes, for which no memory is taken.
  virtual Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                                 std::size_t max_bytes) = 0;
  // Fills `into` with the bytes from `first` on of an object that is never replaced. False: there
  // is no such object. Corrupt: it ends before.
  virtual Result<bool> read(const std::string& key, std::uint64_t first,
                            std::span<std::byte> into) = 0;
  // Reads the bytes from `first` on, a multiple of kPieceBytes, of an object of `bytes` bytes that
  // is never replaced. False: there is no such object. Corrupt: it has another size, in which case
  // no memory is asked for. By look() and read() unless the
  // implementation has something better.
  virtual Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                                  const PieceSink& sink);
  // False: there is one already, whose bytes stay. On return the object that is there survives a
  // crash of the machine that stores it.
  virtual Result<bool> put_if_absent(const std::string& key, Pieces bytes) = 0;
  // The same for bytes that do not exist yet, at most max_bytes. The store outlives the writer. It
  // keeps all bytes in memory unless the implementation has something better.
  virtual Result<std::unique_ptr<ObjectWriter>> begin(const std::string& key,
                                                      std::uint64_t max_bytes);
  // Writes the object, also over another one. read_all() returns the old bytes or the new ones.
  virtual Status replace(const std::string& key, Pieces bytes) = 0;
  // Objects below a prefix, which is "" or ends with a segment, in ascending order of their keys.
  // The walk ends if visit() returns false. Corrupt: the list has more than kMaxListed entries, or
  // no end.
  virtual Status list(const std::string& prefix,
                      const std::function<bool(const ObjectInfo&)>& visit) = 0;
  // No object of this key is no error.
  virtual Status remove(const std::string& key) = 0;
  // Removes what writers that were killed have left, unless it was written at this time or later.
  // Returns how many there were.
  virtual Result<std::uint64_t> remove_unfinished(std::int64_t before_s) = 0;

 private:
  std::shared_ptr<ObjectCache> cache_;
  StoreLink link_ = StoreLink::kMeasured;
};

}  // namespace sparcl::store
