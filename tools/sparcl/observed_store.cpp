#include "tools/sparcl/observed_store.hpp"

#include <utility>

namespace sparcl::tool {

using store::ObjectInfo;
using store::ObjectWriter;

ObservedStore::ObservedStore(std::unique_ptr<store::ObjectStore> store) : store_(std::move(store)) {
  set_cache(store_->shared_cache());
  set_link(store_->link());
}

void ObservedStore::show(const std::string& what) {
  const std::lock_guard lock(showing_);
  read_bytes_ = 0;
  progress_.emplace(what);
}

void ObservedStore::hide() {
  const std::lock_guard lock(showing_);
  progress_.reset();
}

void ObservedStore::note_read(std::uint64_t bytes) {
  const std::lock_guard lock(showing_);
  read_bytes_ += bytes;
  if (progress_) progress_->update(read_bytes_);
}

void ObservedStore::note_put(std::uint64_t bytes) {
  ++put_objects_;
  put_bytes_ += bytes;
}

Result<std::optional<std::vector<std::byte>>> ObservedStore::read_all(const std::string& key,
                                                                      std::size_t max_bytes) {
  auto content = store_->read_all(key, max_bytes);
  if (content.ok() && *content) note_read((*content)->size());
  return content;
}

Result<bool> ObservedStore::read(const std::string& key, std::uint64_t first,
                                 std::span<std::byte> into) {
  const Result<bool> is_read = store_->read(key, first, into);
  if (is_read.ok() && *is_read) note_read(into.size());
  return is_read;
}

Result<bool> ObservedStore::read_whole(const std::string& key, std::uint64_t bytes,
                                       std::uint64_t first, const store::PieceSink& sink) {
  const store::PieceSink counted{sink.memory, [&](std::span<const std::byte> piece) {
                                   note_read(piece.size());
                                   return sink.take(piece);
                                 }};
  return store_->read_whole(key, bytes, first, counted);
}

Result<bool> ObservedStore::put_if_absent(const std::string& key, store::Pieces bytes) {
  const Result<bool> is_new = store_->put_if_absent(key, bytes);
  std::uint64_t total = 0;
  for (const std::span<const std::byte> piece : bytes) total += piece.size();
  if (is_new.ok() && *is_new) note_put(total);
  return is_new;
}

class ObservedStore::Writer final : public ObjectWriter {
 public:
  Writer(std::unique_ptr<ObjectWriter> writer, ObservedStore& store)
      : writer_(std::move(writer)), store_(store) {}
  Status write(std::span<const std::byte> bytes) override {
    bytes_ += bytes.size();
    return writer_->write(bytes);
  }
  Result<bool> finish() override {
    const Result<bool> is_new = writer_->finish();
    if (is_new.ok() && *is_new) store_.note_put(bytes_);
    return is_new;
  }

 private:
  std::unique_ptr<ObjectWriter> writer_;
  ObservedStore& store_;
  std::uint64_t bytes_ = 0;
};

Result<std::unique_ptr<ObjectWriter>> ObservedStore::begin(const std::string& key,
                                                           std::uint64_t max_bytes) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<ObjectWriter> writer, store_->begin(key, max_bytes));
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(std::move(writer), *this));
}

Status ObservedStore::list(const std::string& prefix,
                           const std::function<bool(const ObjectInfo&)>& visit) {
  return store_->list(prefix, [&](const ObjectInfo& each) {
    if (seen_) seen_(each);
    return visit(each);
  });
}

}  // namespace sparcl::tool
