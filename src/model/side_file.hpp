#pragma once
// What lies beside a folder's shards and belongs to the model: configuration, tokenizer, chat
// template. Such files travel with a delta, whole and compressed, where they changed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/bytes.hpp"
#include "src/base/status.hpp"

namespace sparcl::model {

constexpr std::uint64_t kMaxSideFileBytes = std::uint64_t{64}
                                            << 20;  // the largest tokenizers have 35 MB
constexpr std::uint64_t kMaxSideFilesBytes =
    std::uint64_t{256} << 20;  // all of one delta: what a hostile one can ask for
constexpr std::size_t kMaxSideFiles = 1024;

struct SideFile {
  std::string name;
  std::vector<std::byte> content;
};

// A plain, visible name with the suffix of a data file (.json, .txt, .model, ...), and no shard's
// or index's. Programs are none.
bool is_side_file(const std::string& name);

// The side files of a folder, by name; `skipped` gets the names of those that are too large to
// travel.
Result<std::vector<SideFile>> read_side_files(const std::string& folder,
                                              std::vector<std::string>* skipped = nullptr);

// As it travels: compressed with a checksum.
struct PackedFile {
  std::string name;
  std::uint64_t bytes = 0;  // of the content
  std::vector<std::byte> packed;

  friend bool operator==(const PackedFile&, const PackedFile&) = default;
};

Result<PackedFile> pack(const SideFile& file);
Result<SideFile> unpack(const PackedFile& file);

// Those of `target` that `base` has not, or has with other content.
Result<std::vector<PackedFile>> changed_side_files(std::span<const SideFile> base,
                                                   std::span<const SideFile> target);

// What `later` brings in place of `files` or beside them, by name.
void replace_side_files(std::vector<SideFile>& files, std::vector<SideFile> later);
void replace_side_files(std::vector<PackedFile>& files, std::vector<PackedFile> later);

// For hostile bytes: names, counts and sizes are checked before anything is made of them.
void serialise(std::span<const PackedFile> files, ByteWriter& writer);
bool parse_side_files(ByteReader& reader, std::vector<PackedFile>& files);

}  // namespace sparcl::model
