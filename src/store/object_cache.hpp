#pragma once
// A folder on a local disk with objects of stores that readers of this host have fetched, under
// the names of their digests. What a killed reader has fetched stays: the next one goes on. For
// each object there is a file of its bytes, and one with the digests of its leaves. Leaves are
// checked by these when they are read, and the digests by the object's own.

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

class ObjectCache {
 public:
  // SystemError: objects cannot be written there. max_bytes: older objects are removed then.
  static Result<std::shared_ptr<ObjectCache>> open(const std::string& folder,
                                                   std::uint64_t max_bytes);
  // Of the settings STORE_CACHE and STORE_CACHE_GIB; nullptr: none is wanted.
  static Result<std::shared_ptr<ObjectCache>> of_settings();

  // As read_checked(): what is here from here, the rest from the store. Of several readers that
  // want one object one fetches it, and the others wait. A disk that fails is logged, and the
  // object is not kept then.
  Status read(ObjectStore& store, const StoredObject& object, const PieceSink& sink);
  // The leaves from `first` on, with these digests, if all of them are here. They are not fetched,
  // and `into`, which has room for them, holds anything if they are not.
  bool find_leaves(const StoredObject& object, std::uint64_t first,
                   std::span<const model::Digest256> digests, std::span<std::byte> into) const;

  // Whether all of it has been fetched.
  bool has(const StoredObject& object) const;

 private:
  ObjectCache(std::string folder, std::uint64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  void remove_old(const std::string& kept);

  const std::string folder_;
  const std::uint64_t max_bytes_;
};

// Whether the store has a cache that has all of the object.
bool is_fetched(const ObjectStore& store, const StoredObject& object);

}  // namespace sparcl::store
