#pragma once
// A folder that has one folder a version, in the layout of another program: its engines read
// there.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/model/exchange/folder_format.hpp"
#include "src/model/snapshot.hpp"
#include "tools/sparcl/version_store.hpp"

namespace sparcl::tool {

class LayoutFolder final : public VersionStore {
 public:
  // Layouts whose versions follow from what is in memory.
  static std::span<const char* const> layouts();
  // The folder is made if it is missing. InvalidArgument: it is no folder of a file system.
  static Result<std::unique_ptr<VersionStore>> open(const StoreChoice& choice);

  std::uint64_t first_version() const override { return first_version_; }
  std::optional<RemovedVersions> removed_at_start() const override { return removed_; }
  // The first version is complete, and so are later ones by StoreChoice::anchor_every, or if the
  // side files have changed. Each other one has what has changed since the one before. Then
  // versions are removed, if readers are named.
  Result<Stored> publish(std::uint64_t version, const ModelMemory& memory, const Hash128& hash,
                         const model::Layout& layout, const SideFileSet& side_files,
                         bool has_settled) override;

 private:
  LayoutFolder(std::string path, const model::FolderFormat& format, std::uint64_t anchor_every)
      : path_(std::move(path)), format_(format), anchor_every_(anchor_every) {}
  Status begin(const std::vector<std::string>& readers);
  Result<std::uint64_t> newest_there() const;
  Status check_alone() const;
  std::string folder_of(std::uint64_t version) const;
  bool is_complete_due(const SideFileSet& side_files) const;
  Result<Stored> write_complete(std::uint64_t version, const ModelMemory& memory,
                                const model::Layout& layout, const SideFileSet& side_files);
  Result<Stored> write_change(std::uint64_t version, const ModelMemory& memory);

  std::string path_;
  const model::FolderFormat& format_;
  std::uint64_t anchor_every_;  // 0: only the first version, and by side files
  std::uint64_t first_version_ = 0;
  std::uint64_t tried_ = 0;                     // the last version whose writing has begun
  std::optional<AcknowledgedRemoval> removal_;  // nullopt: no readers are named
  std::optional<RemovedVersions> removed_;      // at the start
  std::uint64_t version_ = 0;                   // the last one that this process has written
  model::Snapshot held_;                        // its bytes
  std::uint64_t change_count_ = 0;              // versions since the last complete one
  model::Digest256 side_digest_{};              // of the files beside its shards
};

}  // namespace sparcl::tool
