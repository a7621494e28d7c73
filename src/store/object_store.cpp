#include "src/store/object_store.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/store/staged_pieces.hpp"

namespace sparcl::store {
namespace {

class WriterInMemory final : public ObjectWriter {
 public:
  WriterInMemory(ObjectStore& store, std::string key) : store_(store), key_(std::move(key)) {}
  Status write(std::span<const std::byte> bytes) override {
    bytes_.write(count_, bytes);
    count_ += bytes.size();
    return {};
  }
  Result<bool> finish() override {
    return store_.put_if_absent(key_, StagedPieces(bytes_, count_).pieces());
  }

 private:
  ObjectStore& store_;
  std::string key_;
  Staging bytes_;
  std::uint64_t count_ = 0;
};

}  // namespace

Status ListCount::add() {
  if (++count_ <= kMaxListed) return {};
  return Status(Code::kCorrupt,
                fmt::format("{}the list has more than {} entries: is it the right store?",
                            location_, kMaxListed));
}

Result<std::unique_ptr<ObjectWriter>> ObjectStore::begin(const std::string& key, std::uint64_t) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  return std::unique_ptr<ObjectWriter>(std::make_unique<WriterInMemory>(*this, key));
}

Result<bool> ObjectStore::read_whole(const std::string& key, std::uint64_t bytes,
                                     std::uint64_t first, const PieceSink& sink) {
  SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> info, look(key));
  if (!info) return false;
  if (info->bytes != bytes)
    return Status(Code::kCorrupt, fmt::format("{}: it has {} bytes, and its record says {}",
                                              location_of(key), info->bytes, bytes));
  for (; first < bytes; first += kPieceBytes) {
    const std::span<std::byte> piece = sink.memory(
        first, static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes - first)));
    SPARCL_ASSIGN_OR_RETURN(const bool is_there, read(key, first, piece));
    if (!is_there)
      return Status(Code::kCorrupt, location_of(key) + ": it was removed while it was read");
    SPARCL_RETURN_IF_ERROR(sink.take(piece));
  }
  return true;
}

}  // namespace sparcl::store
