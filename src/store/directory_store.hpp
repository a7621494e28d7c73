#pragma once
// Objects as files of a folder. A file is written under another name, brought to the disk, and then
// linked or renamed: readers find all of it or nothing. On NFS and Lustre as on a local disk: no
// step relies on locks, and look-ups that the client has remembered cost time alone.

#include <string>

#include "src/store/object_store.hpp"

namespace sparcl::store {

class DirectoryStore final : public ObjectStore {
 public:
  // The folder is made if it is not there.
  static Result<std::unique_ptr<ObjectStore>> open(const std::string& folder);

  StoreCapabilities capabilities() const override { return {.excludes_writers = true}; }
  std::string place_of(std::string_view key) const override;
  Result<std::optional<ObjectInfo>> look(const std::string& key) override;
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override;
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override;
  Status replace(const std::string& key, Pieces bytes) override;
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override;
  Status remove(const std::string& key) override;

 private:
  explicit DirectoryStore(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace sparcl::store
