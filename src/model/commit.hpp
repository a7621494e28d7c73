#pragma once
// A published version: what an update leads to, and from where. The publisher announces these bytes
// on its own connections, and its key signs them if it has one. A replica that passes an update on
// can therefore change no bit of it, nor give an old one for new.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/checksum.hpp"

namespace sparcl::model {

struct Commit {
  std::string model_id;
  std::uint64_t epoch = 0;  // of the publisher's life: later ones are larger
  std::uint64_t base_version = 0;
  std::uint64_t version = 0;
  bool is_anchor = false;  // carries all bytes; base_version and base_hash are 0
  Hash128 schema_hash;
  Hash128 base_hash;
  Hash128 target_hash;
  std::uint64_t elements = 0;
  std::uint64_t changed = 0;
  std::uint64_t stream_bytes = 0;             // of the update (docs/reference/wire-format.md)
  std::array<std::byte, 32> stream_digest{};  // root of the tree over these bytes (StreamDigest)

  // Some blocks, whole, for one whose memory was damaged: it holds base_hash, which is no version.
  bool is_repair() const { return !is_anchor && base_version == 0 && stream_bytes > 0; }
  // It is from no version: what it replaces is worth nothing, and all that is held is to be hashed.
  bool has_no_base() const { return is_anchor || is_repair(); }

  friend bool operator==(const Commit&, const Commit&) = default;
};

std::vector<std::byte> serialise(const Commit& commit);
[[nodiscard]] bool read_commit(ByteReader& bytes, Commit& commit);

}  // namespace sparcl::model
