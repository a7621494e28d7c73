#pragma once
// The contract of object stores: named bytes that appear as a whole. Bodies: a directory of a file
// system that all readers and writers share (directory_store.hpp).
//
// Keys are paths of segments with / between them. A segment has letters, digits, '.', '_', '-' and
// '=', does not begin with '.', and has at most kMaxSegment characters. Objects that
// put_if_absent() has made are never written to again; a reader may keep what it has read of them.
//
// Errors name the store and the key. A store may be written to by several processes at once, and
// each call may come from any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace sparcl::store {

constexpr std::size_t kMaxSegment = 128, kMaxKey = 512;  // characters

// InvalidArgument: it is no key, and why.
Status check_key(std::string_view key);

// What a body promises. A store is asked when it is opened; nothing is assumed.
struct StoreCapabilities {
  // Of several writers of one key, put_if_absent() succeeds for exactly one. Otherwise a second
  // writer may overwrite what the first has written.
  bool excludes_writers = false;
};

struct ObjectInfo {
  std::string key;
  std::uint64_t bytes = 0;
  std::int64_t written_s = 0;  // by the store's clock, in seconds since 1970
};

// The bytes of an object, one piece after the other.
using Pieces = std::span<const std::span<const std::byte>>;

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  virtual StoreCapabilities capabilities() const = 0;
  // For texts: the store's address and the key.
  virtual std::string place_of(std::string_view key) const = 0;

  // nullopt: there is no such object.
  virtual Result<std::optional<ObjectInfo>> look(const std::string& key) = 0;
  // Fills `into` with the object's bytes from `first` on. False: there is no such object. Corrupt:
  // it ends before.
  virtual Result<bool> read(const std::string& key, std::uint64_t first,
                            std::span<std::byte> into) = 0;
  // False: there is one already, whose bytes stay. When it returns true, the object survives a
  // crash of the machine that stores it.
  virtual Result<bool> put_if_absent(const std::string& key, Pieces bytes) = 0;
  // Whether there is one or not. Readers find the old bytes or the new ones.
  virtual Status replace(const std::string& key, Pieces bytes) = 0;
  // Objects below a prefix, which is "" or ends with a segment, in ascending order of their keys.
  // The walk ends if visit() returns false.
  virtual Status list(const std::string& prefix,
                      const std::function<bool(const ObjectInfo&)>& visit) = 0;
  // No object of this key is no error.
  virtual Status remove(const std::string& key) = 0;
};

}  // namespace sparcl::store
