#pragma once
// The payloads of the bootstrap's records. They are checked although their writers hold the secret.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::net {

constexpr std::size_t kMaxBlobBytes = 64 * 1024;
constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kMaxTextBytes = 4096;
constexpr int kMaxRanks = 1 << 20;
constexpr std::size_t kMaxJoinBytes = kMaxBlobBytes + kMaxHostBytes + 64;

// The first message of a rank.
struct Join {
  int rank = -1;
  int nranks = 0;
  std::uint32_t pid = 0;
  std::uint64_t patience_ms = 0;  // the timeout of the rank
  std::string host;
  std::vector<std::byte> blob;

  std::string who() const;  // "rank 3 (host h, pid 4711)"
};

// Sent to waiting ranks now and then: the root is alive.
struct Note {
  std::uint32_t came = 0;
  std::uint32_t nranks = 0;
  std::string
      missing;  // "2, 5-7"; empty: the root is of an earlier version, which does not send it

  std::string text() const;  // "4 of 8 ranks are here, missing: 2, 5-7"
};

using BlobTable = std::vector<std::vector<std::byte>>;

std::vector<std::byte> encode_join(const Join& join);
Result<Join> decode_join(std::span<const std::byte> bytes);

std::vector<std::byte> encode_note(const Note& note);
Result<Note> decode_note(std::span<const std::byte> bytes);

std::vector<std::byte> encode_table(std::span<const Join* const> by_rank);
Result<BlobTable> decode_table(std::span<const std::byte> bytes, int nranks);
constexpr std::uint64_t max_table_bytes(int nranks) {
  return 4 + static_cast<std::uint64_t>(nranks) * (4 + kMaxBlobBytes);
}

std::vector<std::byte> encode_failure(const Status& failure);
Status decode_failure(
    std::span<const std::byte> bytes);  // the failure itself; Corrupt if the bytes hold none

}  // namespace sparcl::net
