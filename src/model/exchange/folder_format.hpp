#pragma once
// The layouts of other programs that are a folder a version and code a tensor's bytes against its
// old bytes (docs/reference/exchange-formats.md). They need the base in both directions. Each is
// one file and one row of the table.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel_set.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/exchange/change_base.hpp"
#include "src/model/exchange/sparse_change.hpp"
#include "src/model/file_watch.hpp"

namespace sparcl::model {

constexpr std::uint64_t kShardBytes = std::uint64_t{2} << 30;  // as the other writers' shards

struct FolderWrite {
  std::string folder;                       // exists and is empty; it gets its name later
  std::string name;                         // the last part of its later name
  std::uint64_t shard_bytes = kShardBytes;  // a shard is closed before it exceeds this
  std::uint64_t bytes = 0;                  // written
  std::uint64_t files = 0;
};

struct FolderFormat {
  const char* name;
  const char* summary;
  // Has the folder at this path this layout, by its commit point?
  bool (*is_it)(const std::string& path);
  // Untrusted input: refused with the reason, which names the path. The digests of the new bytes
  // are verified. `bytes` gets the bytes that were read.
  Status (*read)(const std::string& path, const ChangeBase& base, const FileWatch& watch,
                 SparseChange& change, std::uint64_t& bytes);
  // The commit point is written last. match_schema() has passed.
  Status (*write)(const SparseChange& change, const ChangeBase& base, FolderWrite& out);
};

extern const FolderFormat kHfXorFormat;
extern const FolderFormat kHfXorXxh3Format;
extern const FolderFormat kHfOverwriteFormat;
extern const FolderFormat kArc2Format;
extern const FolderFormat kSkyrlFormat;
extern const FolderFormat kHfFullFormat;

std::span<const FolderFormat* const> folder_formats();
const FolderFormat* find_folder_format(std::string_view name);
const FolderFormat* recognise_folder(const std::string& path);

}  // namespace sparcl::model
