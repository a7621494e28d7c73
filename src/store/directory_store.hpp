#pragma once
// Objects as files of a folder. A file is written under a random name that begins with a dot,
// brought to the disk, and then linked (put_if_absent) or renamed (replace). So readers get all of
// an object or nothing, and link(2) decides between writers, on NFS as well. No lock is taken.
// Tested on local file systems, and with a stand-in for NFS; not on a real NFS or Lustre.
//
// A killed writer leaves its file with the random name. Such files are no objects.

#include <sys/stat.h>

#include <mutex>
#include <set>
#include <string>

#include "src/store/object_store.hpp"

namespace sparcl::store {

class DirectoryStore final : public ObjectStore {
 public:
  // The folder is made with the first object. Then Unsupported: its file system has no links
  // between files.
  static Result<std::unique_ptr<ObjectStore>> open(const std::string& folder,
                                                   Missing missing = Missing::kIsMade);

  Result<StoreCapabilities> capabilities() override { return StoreCapabilities{true}; }
  std::string location_of(std::string_view key) const override;
  Result<std::optional<ObjectInfo>> look(const std::string& key) override;
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override;
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override;
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override;
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override;
  Result<std::unique_ptr<ObjectWriter>> begin(const std::string& key,
                                              std::uint64_t max_bytes) override;
  Status replace(const std::string& key, Pieces bytes) override;
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override;
  Status remove(const std::string& key) override;
  Result<std::uint64_t> remove_unfinished(std::int64_t before_s) override;

 private:
  explicit DirectoryStore(std::string folder) : folder_(std::move(folder)) {}
  Status probe_links();
  class Writer;
  Status make_folder_of(const std::string& path);
  struct Listing;
  Status list_folder(const std::string& prefix, const struct stat& about, Listing& listing) const;

  std::string folder_;
  std::mutex making_;  // guards the next two
  bool has_probed_ = false;
  std::set<std::string> is_durable_;  // folders whose names this process has brought to the disk
};

}  // namespace sparcl::store
