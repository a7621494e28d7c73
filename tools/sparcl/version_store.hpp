#pragma once
// The store of `sparcl publish --store`.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/model/side_file.hpp"
#include "src/store/chain_writer.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {

struct StoreChoice {
  std::string url;  // "": none
  std::uint64_t anchor_every = 0, keep_versions = 0;
  double lease_seconds = 0;
  bool single_writer = false;
  std::string model_id, key_path;
};

class VersionStore {
 public:
  // What the store holds already is compared with what is published, so that a watched folder can
  // be published again after a restart.
  static Result<std::unique_ptr<VersionStore>> open(const StoreChoice& choice);

  // The newest version that was there when it was opened; 0: none.
  std::uint64_t first_version() const { return first_ ? first_->version : 0; }

  struct Stored {
    std::uint64_t bytes = 0;    // of the delta, or of the first anchor
    std::uint64_t changed = 0;  // elements
    bool is_first = false;      // the store was empty
    bool was_there = false;     // the store held this state, or a later version, already
    bool waits = false;         // it is older than what the store holds: settle() decides
  };
  // has_settled: of the files that were there at the start all were read. hash: of the memory.
  Result<Stored> publish(std::uint64_t version, const ModelMemory& memory, const Hash128& hash,
                         const model::Layout& layout, std::span<const model::SideFile> side_files,
                         bool has_settled);

 private:
  explicit VersionStore(std::unique_ptr<store::ObjectStore> objects)
      : objects_(std::move(objects)) {}
  Status begin(const ModelMemory& memory);

  std::unique_ptr<store::ObjectStore> objects_;
  store::WriterOptions options_;
  std::optional<store::VersionRecord> first_;
  bool goes_on_ = false;  // something was published, or the store's newest state was met
  std::unique_ptr<store::ChainWriter> writer_;
};

}  // namespace sparcl::tool
