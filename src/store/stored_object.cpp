#include "src/store/stored_object.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace sparcl::store {
namespace {

constexpr std::uint64_t kRequestBytes = 64 * model::kLeafBytes;  // of one read

// Reads piece by piece into buffer_for(first byte, count), which is called for each.
Status read_checked(ObjectStore& store, const StoredObject& object,
                    const std::function<std::span<std::byte>(std::uint64_t, std::size_t)>& buffer) {
  const std::string location = store.location_of(object.key);
  std::vector<model::Digest256> leaves;
  for (std::uint64_t first = 0; first < object.bytes; first += kRequestBytes) {
    const auto count = static_cast<std::size_t>(std::min(kRequestBytes, object.bytes - first));
    const std::span<std::byte> piece = buffer(first, count);
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, store.read(object.key, first, piece));
    if (!is_there) return Status(Code::kCorrupt, location + ": it is missing");
    for (std::size_t at = 0; at < count; at += model::kLeafBytes) {
      const std::size_t bytes = std::min<std::size_t>(model::kLeafBytes, count - at);
      SPARCL_ASSIGN_OR_RETURN(leaves.emplace_back(), model::leaf_digest(piece.subspan(at, bytes)));
    }
  }
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(leaves));
  if (root == object.digest) return {};
  return Status(Code::kCorrupt,
                location + ": its bytes are not those that were published (SHA-256)");
}

// The memory of a staging.
class Segments {
 public:
  Segments(const Staging& bytes, std::uint64_t count) {
    for (std::uint64_t at = 0; at < count; at += Staging::kSegmentBytes) {
      held_.push_back(bytes.slice(at, static_cast<std::size_t>(std::min<std::uint64_t>(
                                          Staging::kSegmentBytes, count - at))));
      pieces_.emplace_back(held_.back().bytes());
    }
  }
  Pieces pieces() const { return pieces_; }

 private:
  std::vector<Buffer> held_;
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace

std::string new_object_key(const char* kind, std::uint64_t number, std::uint64_t from,
                           const std::string& writer, std::uint64_t attempt) {
  return fmt::format("{}/{:020d}-{:020d}-{}-{}.sparcl", kind, number, from, writer, attempt);
}

Result<StoredObject> put_object(ObjectStore& store, const std::string& key, const Staging& bytes,
                                std::uint64_t count) {
  model::StreamDigest digest;
  SPARCL_RETURN_IF_ERROR(digest.finish(bytes, count));
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(digest.take_leaves()));
  const Segments segments(bytes, count);
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, store.put_if_absent(key, segments.pieces()));
  if (is_new) return StoredObject{key, count, root};
  return Status(Code::kInternalError,
                fmt::format("{}: another writer has this name", store.location_of(key)));
}

Status replace_object(ObjectStore& store, const StoredObject& object, const Staging& bytes) {
  return store.replace(object.key, Segments(bytes, object.bytes).pieces());
}

Result<Staging> get_object(ObjectStore& store, const StoredObject& object,
                           std::uint64_t max_bytes) {
  if (object.bytes > max_bytes) {
    return Status(Code::kCorrupt,
                  fmt::format("{}: its record says {} bytes: no update of these tensors has more "
                              "than {}",
                              store.location_of(object.key), object.bytes, max_bytes));
  }
  Staging staging;
  std::vector<std::byte> piece;
  std::uint64_t begin = 0;
  const auto keep = [&] {
    if (!piece.empty()) staging.write(begin, piece);
  };
  SPARCL_RETURN_IF_ERROR(read_checked(store, object, [&](std::uint64_t first, std::size_t count) {
    keep();
    begin = first;
    piece.resize(count);
    return std::span(piece);
  }));
  keep();
  return staging;
}

Status check_object(ObjectStore& store, const StoredObject& object) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> info, store.look(object.key));
  if (info && info->bytes != object.bytes)
    return Status(Code::kCorrupt,
                  fmt::format("{}: it has {} bytes, and its record says {}",
                              store.location_of(object.key), info->bytes, object.bytes));
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(object.bytes, kRequestBytes)));
  return read_checked(store, object, [&](std::uint64_t, std::size_t count) {
    return std::span(piece).first(count);
  });
}

}  // namespace sparcl::store
