#include "src/store/stored_object.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/store/object_cache.hpp"
#include "src/store/staged_pieces.hpp"
#include "src/trust/hex.hpp"

namespace sparcl::store {
namespace {

Status ignore_piece(std::span<const std::byte>) { return {}; }

}  // namespace

std::string new_object_key(const char* kind, std::uint64_t number, std::uint64_t from,
                           const std::string& writer, std::uint64_t attempt) {
  return fmt::format("{}/{:020d}-{:020d}-{}-{}.sparcl", kind, number, from, writer, attempt);
}

Result<StoredObject> named_by_content(const char* kind, std::span<const std::byte> bytes) {
  Staging staged;
  staged.write(0, bytes);
  model::StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(digest.finish(staged, bytes.size()));
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(digest.take_leaves()));
  return StoredObject{std::string(kind) + "/" + trust::hex_of(root), bytes.size(), root};
}

Status name_is_taken(const ObjectStore& store, const std::string& key) {
  return Status(Code::kInternalError,
                fmt::format("{}: another writer has this name", store.location_of(key)));
}

Result<StoredObject> put_object(ObjectStore& store, const std::string& key, const Staging& bytes,
                                std::uint64_t count) {
  model::StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(digest.finish(bytes, count));
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(digest.take_leaves()));
  SPARCL_ASSIGN_OR_RETURN(const bool is_new,
                          store.put_if_absent(key, StagedPieces(bytes, count).pieces()));
  if (!is_new) return name_is_taken(store, key);
  return StoredObject{key, count, root};
}

Status replace_object(ObjectStore& store, const StoredObject& object, const Staging& bytes) {
  return store.replace(object.key, StagedPieces(bytes, object.bytes).pieces());
}

Status read_from_store(ObjectStore& store, const StoredObject& object, const PieceSink& sink,
                       std::vector<model::Digest256> leaves, const KeepLeaf& keep) {
  static_assert(kPieceBytes == model::kLeafBytes);
  const std::string location = store.location_of(object.key);
  const auto take = [&](std::span<const std::byte> leaf) -> Status {
    SPARCL_ASSIGN_OR_RETURN(leaves.emplace_back(), model::leaf_digest(leaf));
    if (keep) keep(leaf, leaves.back());
    return sink.take(leaf);
  };
  const std::uint64_t first = leaves.size() * model::kLeafBytes;
  SPARCL_ASSIGN_OR_RETURN(const bool is_there,
                          store.read_whole(object.key, object.bytes, first, {sink.memory, take}));
  if (!is_there) return Status(Code::kCorrupt, location + ": it is missing");
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(leaves));
  if (root == object.digest) return {};
  return Status(Code::kCorrupt,
                location + ": its bytes are not those that were published (SHA-256)");
}

Status read_checked(ObjectStore& store, const StoredObject& object, const PieceSink& sink) {
  if (store.cache() != nullptr) return store.cache()->read(store, object, sink);
  return read_from_store(store, object, sink);
}

Status check_size(const ObjectStore& store, const StoredObject& object, std::uint64_t max_bytes) {
  if (object.bytes <= max_bytes) return {};
  return Status(Code::kCorrupt,
                fmt::format("{}: its record says {} bytes: no update of these tensors has more "
                            "than {}",
                            store.location_of(object.key), object.bytes, max_bytes));
}

Result<Staging> get_object(ObjectStore& store, const StoredObject& object,
                           std::uint64_t max_bytes) {
  SPARCL_RETURN_IF_ERROR(check_size(store, object, max_bytes));
  Staging staging;
  const auto memory = [&](std::uint64_t first, std::size_t count) {
    staging.reserve(first + count);
    const Buffer leaf = staging.slice(first, count);
    return std::span<std::byte>(leaf.data(), count);
  };
  SPARCL_RETURN_IF_ERROR(read_checked(store, object, {memory, ignore_piece}));
  return staging;
}

Status check_object(ObjectStore& store, const StoredObject& object) {
  std::vector<std::byte> leaf(static_cast<std::size_t>(std::min(object.bytes, model::kLeafBytes)));
  const auto memory = [&](std::uint64_t, std::size_t count) {
    return std::span(leaf).first(count);
  };
  return read_from_store(store, object, {memory, ignore_piece});
}

}  // namespace sparcl::store
