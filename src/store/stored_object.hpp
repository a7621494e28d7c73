#pragma once
// Objects that records name: they are written once, and every byte that is read is checked.

#include <functional>
#include <span>
#include <vector>

#include "src/base/staging.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

// A key that no other writer uses: attempt counts those of one writer. from: as Shortcut's.
std::string new_object_key(const char* kind, std::uint64_t number, std::uint64_t from,
                           const std::string& writer, std::uint64_t attempt);

// The object of these bytes under a key that their digest gives.
Result<StoredObject> named_by_content(const char* kind, std::span<const std::byte> bytes);

// InternalError: an object of this name is there, which no other writer uses.
Status name_is_taken(const ObjectStore& store, const std::string& key);
// Puts bytes under a key, which no other writer uses.
Result<StoredObject> put_object(ObjectStore& store, const std::string& key, const Staging& bytes,
                                std::uint64_t count);
// The bytes of an object of a copy, over what is there.
Status replace_object(ObjectStore& store, const StoredObject& object, const Staging& bytes);
// Reads all bytes of an object, whose pieces come before they are checked. Corrupt: it is missing,
// or is not what the record says.
Status read_checked(ObjectStore& store, const StoredObject& object, const PieceSink& sink);
// The same without a cache. leaves: of the first bytes, which are there already. keep() gets each
// further leaf, also of an object that turns out to be corrupt.
using KeepLeaf = std::function<void(std::span<const std::byte>, const model::Digest256&)>;
Status read_from_store(ObjectStore& store, const StoredObject& object, const PieceSink& sink,
                       std::vector<model::Digest256> leaves = {}, const KeepLeaf& keep = {});
// Corrupt: it has more bytes, for which no memory is taken.
Status check_size(const ObjectStore& store, const StoredObject& object, std::uint64_t max_bytes);
// All bytes of an object. Corrupt: it is missing, has more than max_bytes, for which no memory is
// taken, or is not what the record says.
Result<Staging> get_object(ObjectStore& store, const StoredObject& object, std::uint64_t max_bytes);
// The same check in the memory of one request. Corrupt also if it has more bytes.
Status check_object(ObjectStore& store, const StoredObject& object);

}  // namespace sparcl::store
