#include "src/model/stream_digest.hpp"

#include <algorithm>
#include <cstring>

#include "src/trust/sha256.hpp"

namespace sparcl::model {
namespace {

// RFC 9162: no leaf is an inner node, and no inner node a leaf.
constexpr std::byte kLeafMark{0}, kNodeMark{1};

Result<Digest256> finish_sha(trust::Sha256& sha) {
  SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, sha.finish());
  Digest256 bytes;
  std::memcpy(bytes.data(), digest.data(), bytes.size());
  return bytes;
}

Result<Digest256> node_digest(const Digest256& left, const Digest256& right) {
  trust::Sha256 sha;
  sha.update(std::span(&kNodeMark, 1));
  sha.update(left);
  sha.update(right);
  return finish_sha(sha);
}

}  // namespace

Result<Digest256> sha256_of(std::span<const std::byte> bytes) {
  trust::Sha256 sha;
  sha.update(bytes);
  return finish_sha(sha);
}

Result<Digest256> leaf_digest(std::span<const std::byte> leaf) {
  trust::Sha256 sha;
  sha.update(std::span(&kLeafMark, 1));
  sha.update(leaf);
  return finish_sha(sha);
}

// Level by level; the last of an odd number goes up as it is. That is the tree of RFC 9162, whose
// left part is the largest full one.
Result<Digest256> root_of(std::span<const Digest256> leaves) {
  if (leaves.empty()) return sha256_of({});
  std::vector<Digest256> level(leaves.begin(), leaves.end());
  while (level.size() > 1) {
    std::size_t above = 0;
    for (std::size_t i = 0; i + 1 < level.size(); i += 2) {
      SPARCL_ASSIGN_OR_RETURN(const Digest256 node, node_digest(level[i], level[i + 1]));
      level[above++] = node;
    }
    if (level.size() % 2 == 1) level[above++] = level.back();
    level.resize(above);
  }
  return level.front();
}

Status StreamDigest::add_leaf(const Staging& bytes, std::uint64_t end) {
  const std::uint64_t begin = leaves_.size() * kLeafBytes;
  SPARCL_ASSIGN_OR_RETURN(
      const Digest256 digest,
      leaf_digest(bytes.slice(begin, static_cast<std::size_t>(end - begin)).bytes()));
  leaves_.push_back(digest);
  return {};
}

Status StreamDigest::advance(const Staging& bytes, std::uint64_t end) {
  while ((leaves_.size() + 1) * kLeafBytes <= end)
    SPARCL_RETURN_IF_ERROR(add_leaf(bytes, (leaves_.size() + 1) * kLeafBytes));
  return {};
}

Status StreamDigest::finish(const Staging& bytes, std::uint64_t end) {
  SPARCL_RETURN_IF_ERROR(advance(bytes, end));
  return leaves_.size() < leaf_count(end) ? add_leaf(bytes, end) : Status();
}

}  // namespace sparcl::model
