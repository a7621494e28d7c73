#pragma once
// The files beside a folder's shards that belong to the model: configuration, tokenizer, chat
// template. If they change, a delta contains them, complete and compressed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/status.hpp"
#include "src/model/stream_digest.hpp"

namespace sparcl::model {

constexpr std::uint64_t kMaxSideFileBytes = std::uint64_t{64}
                                            << 20;  // the largest tokenizers have 35 MB
constexpr std::uint64_t kMaxSideFilesBytes =
    std::uint64_t{256} << 20;  // all of one delta: the limit for a hostile one
constexpr std::size_t kMaxSideFiles = 1024;

struct SideFile {
  std::string name;
  std::vector<std::byte> content;
};

// A plain, visible name with the suffix of a data file (.json, .txt, .model, ...) that is not a
// shard's or index's. Programs are excluded.
bool is_side_file(const std::string& name);

// The side files of a folder, by name; `skipped` gets the names of those that are too large to
// send, alone or with those before them.
Result<std::vector<SideFile>> read_side_files(const std::string& folder,
                                              std::vector<std::string>* skipped = nullptr);

// The form in a delta: compressed with a checksum.
struct PackedFile {
  std::string name;
  std::uint64_t bytes = 0;  // of the content
  std::vector<std::byte> packed;

  friend bool operator==(const PackedFile&, const PackedFile&) = default;
};

Result<PackedFile> pack(const SideFile& file);
Result<SideFile> unpack(const PackedFile& file);

// The files of `target` that `base` does not have, or has with other content.
Result<std::vector<PackedFile>> changed_side_files(std::span<const SideFile> base,
                                                   std::span<const SideFile> target);

// SHA-256 over all names and contents. `files` are in the order of their names.
Result<Digest256> digest_of(std::span<const SideFile> files);

// Merges `later` into `files`, by name; files of the same name are replaced.
void replace_side_files(std::vector<SideFile>& files, std::vector<SideFile> later);
void replace_side_files(std::vector<PackedFile>& files, std::vector<PackedFile> later);
Status replace_side_files(std::vector<SideFile>& files, std::span<const PackedFile> later);

// For untrusted bytes: names, counts and sizes are checked before they are used.
void serialise(std::span<const PackedFile> files, ByteWriter& writer);
bool parse_side_files(ByteReader& reader, std::vector<PackedFile>& files);

}  // namespace sparcl::model
