#include "src/store/object_stream.hpp"

#include <cstring>

#include "src/net/socket.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::store {

Result<ObjectStream> ObjectStream::begin(ObjectStore& store, const std::string& key,
                                         std::uint64_t max_bytes) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store.begin(key, max_bytes));
  return ObjectStream(store, key, std::move(writer));
}

std::byte* ObjectStream::reserve(std::size_t bytes) {
  if (room_.size() < filled_ + bytes) room_.resize(filled_ + bytes + model::kLeafBytes);
  return room_.data() + filled_;
}

void ObjectStream::commit(std::size_t used) {
  filled_ += used;
  std::size_t done = 0;
  for (; filled_ - done >= model::kLeafBytes && error_.ok(); done += model::kLeafBytes)
    error_ = put_leaf({room_.data() + done, model::kLeafBytes});
  if (done > 0) std::memmove(room_.data(), room_.data() + done, filled_ - done);
  filled_ = error_.ok() ? filled_ - done : 0;
}

Status ObjectStream::put_leaf(std::span<const std::byte> leaf) {
  SPARCL_ASSIGN_OR_RETURN(leaves_.emplace_back(), model::leaf_digest(leaf));
  byte_count_ += leaf.size();
  const double begin = net::monotonic_seconds();
  Status written = writer_->write(leaf);
  seconds_ += net::monotonic_seconds() - begin;
  return written;
}

Result<StoredObject> ObjectStream::finish() {
  SPARCL_RETURN_IF_ERROR(error_);
  if (filled_ > 0) SPARCL_RETURN_IF_ERROR(put_leaf({room_.data(), filled_}));
  SPARCL_ASSIGN_OR_RETURN(const model::Digest256 root, model::root_of(leaves_));
  const double begin = net::monotonic_seconds();
  SPARCL_ASSIGN_OR_RETURN(const bool is_new, writer_->finish());
  seconds_ += net::monotonic_seconds() - begin;
  if (!is_new) return name_is_taken(*store_, key_);
  return StoredObject{key_, byte_count_, root};
}

}  // namespace sparcl::store
