#pragma once
// A folder that has one folder a version, in the layout of another program: its engines read
// there.

#include <span>

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
  // The first version is complete. Each other one has what has changed since the one before.
  Result<Stored> publish(std::uint64_t version, const ModelMemory& memory, const Hash128& hash,
                         const model::Layout& layout, std::span<const model::SideFile> side_files,
                         bool has_settled) override;

 private:
  LayoutFolder(std::string path, const model::FolderFormat& format, std::uint64_t first_version)
      : path_(std::move(path)), format_(format), first_version_(first_version) {}
  std::string folder_of(std::uint64_t version) const;
  Result<Stored> write_complete(std::uint64_t version, const ModelMemory& memory,
                                const model::Layout& layout,
                                std::span<const model::SideFile> side_files) const;
  Result<Stored> write_change(std::uint64_t version, const ModelMemory& memory);

  std::string path_;
  const model::FolderFormat& format_;
  std::uint64_t first_version_;
  std::uint64_t version_ = 0;  // the last one that this process has written
  model::Snapshot held_;       // its bytes
};

}  // namespace sparcl::tool
