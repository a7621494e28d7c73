#include "src/store/stored_update.hpp"

#include <algorithm>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/codec/update_header.hpp"

namespace sparcl::store {
namespace {

// The header's section comes first: a tag, a length of one byte, and the content.
constexpr std::size_t kHeaderFirst = codec::kPrefixBytes + 2;
constexpr std::size_t kHeadBytes = kHeaderFirst + codec::kUpdateHeaderBytes;
constexpr std::size_t kMaxEndBytes = codec::kEndBytes + 2 * sizeof(Hash128);

// The first and the last bytes of what comes in pieces.
class Edges {
 public:
  void add(std::span<const std::byte> piece) {
    const std::size_t wanted = std::min(kHeadBytes - head_.size(), piece.size());
    head_.insert(head_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(wanted));
    const std::size_t kept = std::min(piece.size(), kMaxEndBytes);
    tail_.insert(tail_.end(), piece.end() - static_cast<std::ptrdiff_t>(kept), piece.end());
    if (tail_.size() > kMaxEndBytes)
      tail_.erase(tail_.begin(), tail_.end() - static_cast<std::ptrdiff_t>(kMaxEndBytes));
  }

  // Their checksums are not read again: SHA-256 has been.
  Result<UpdateEnds> parse() const {
    if (head_.size() < kHeadBytes || load_le<std::uint32_t>(head_.data()) != codec::kMagic ||
        static_cast<std::uint8_t>(head_[codec::kPrefixBytes]) != codec::kTagUpdateHeader ||
        static_cast<std::size_t>(head_[codec::kPrefixBytes + 1]) != codec::kUpdateHeaderBytes)
      return corrupt("it is no update: it begins otherwise");
    SPARCL_ASSIGN_OR_RETURN(const codec::UpdateHeader header,
                            codec::parse_update_header(head_.data() + kHeaderFirst));
    const bool has_base = (header.flags & codec::kFlagBaseHash) != 0,
               has_target = (header.flags & codec::kFlagTargetHash) != 0;
    const std::size_t end_bytes =
        codec::kEndBytes + sizeof(Hash128) * (std::size_t{has_base} + std::size_t{has_target});
    if (tail_.size() < end_bytes) return corrupt("it is no update: it is too short");
    SPARCL_ASSIGN_OR_RETURN(
        const codec::UpdateEnd end,
        codec::parse_update_end(std::span(tail_).last(end_bytes), header.flags));
    UpdateEnds ends{header.base_version, header.target_version};
    if (has_base) ends.base_hash = end.base_hash;
    if (has_target) ends.target_hash = end.target_hash;
    return ends;
  }

 private:
  std::vector<std::byte> head_, tail_;
};

}  // namespace

Result<UpdateEnds> check_update(ObjectStore& store, const StoredObject& object) {
  std::vector<std::byte> leaf(static_cast<std::size_t>(std::min(object.bytes, model::kLeafBytes)));
  Edges edges;
  const auto memory = [&](std::uint64_t, std::size_t count) {
    return std::span(leaf).first(count);
  };
  const auto take = [&](std::span<const std::byte> piece) -> Status {
    edges.add(piece);
    return {};
  };
  SPARCL_RETURN_IF_ERROR(read_from_store(store, object, {memory, take}));
  const Result<UpdateEnds> ends = edges.parse();
  if (ends.ok()) return ends;
  return ends.status().with_prefix(store.location_of(object.key) + ": ");
}

}  // namespace sparcl::store
