#pragma once
// Where `sparcl publish --store` keeps versions, beside or instead of replicas.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/model/file_layout.hpp"
#include "src/model/side_file.hpp"
#include "tools/sparcl/acknowledged_removal.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

struct StoreChoice {
  std::string url;                // "": none
  std::string layout = "sparcl";  // or of another program: VersionStore::layouts()
  std::uint64_t anchor_every = 0, keep_versions = 0;
  std::vector<std::string> readers{};  // versions that all of them have acknowledged are removed
  double lease_seconds = 0;
  std::string chain = "hybrid";  // of our layout
  bool single_writer = false;
  std::string model_id, key_path;
};

// The files beside the shards.
struct SideFileSet {
  std::span<const model::SideFile> files;
  model::Digest256 digest{};  // of them; zeros: no folder was read
};

class VersionStore {
 public:
  // In the layout of the choice. The newest version that is there already is found.
  static Result<std::unique_ptr<VersionStore>> open(const StoreChoice& choice);
  static std::vector<std::string> layouts();
  virtual ~VersionStore() = default;

  // The newest version that was there when it was opened; 0: none.
  virtual std::uint64_t first_version() const = 0;
  // Whether the version that is so many places before that one has this state, or was pruned. False
  // also if states are not known.
  virtual Result<bool> has_state(std::uint64_t places_before, const Hash128& hash) const {
    (void)places_before, (void)hash;
    return false;
  }
  // By open(). nullopt: versions are not removed by acknowledgements.
  virtual std::optional<RemovedVersions> removed_at_start() const { return {}; }

  struct Stored {
    std::uint64_t bytes = 0;    // that were written, without anchors of later versions
    std::uint64_t changed = 0;  // elements
    bool is_complete = false;   // all bytes were written
    bool was_there = false;     // the store held this state, or a later version, already
    bool waits = false;         // the store may hold a later state: published once it has settled
    std::optional<RemovedVersions> removed{};  // as of removed_at_start()
  };
  // What a store holds already is compared with what is published, so that a watched folder can be
  // published again after a restart. has_settled: all files of the start were read. hash: of the
  // memory.
  virtual Result<Stored> publish(std::uint64_t version, const ModelMemory& memory,
                                 const Hash128& hash, const model::Layout& layout,
                                 const SideFileSet& side_files, bool has_settled) = 0;
};

}  // namespace sparcl::tool
