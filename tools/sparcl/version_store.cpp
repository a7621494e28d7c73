#include "tools/sparcl/version_store.hpp"

#include <fmt/format.h>

#include <cmath>

#include "src/base/folder_list.hpp"
#include "src/model/exchange/folder_format.hpp"
#include "src/store/address/open_store.hpp"
#include "src/store/chain_writer.hpp"
#include "tools/sparcl/layout_folder.hpp"
#include "tools/sparcl/open_chain.hpp"

namespace sparcl::tool {
namespace {

// In our own layout (src/store).
class ChainVersionStore final : public VersionStore {
 public:
  explicit ChainVersionStore(std::unique_ptr<store::ObjectStore> objects)
      : objects_(std::move(objects)) {}
  std::uint64_t first_version() const override { return first_ ? first_->version : 0; }
  Result<bool> has_state(std::uint64_t places_before, const Hash128& hash) const override;
  Result<Stored> publish(std::uint64_t version, const ModelMemory& memory, const Hash128& hash,
                         const model::Layout& layout, const SideFileSet& side_files,
                         bool has_settled) override;

  friend Result<std::unique_ptr<VersionStore>> open_chain_store(const StoreChoice& choice);

 private:
  Status begin(const ModelMemory& memory);

  std::unique_ptr<store::ObjectStore> objects_;
  store::WriterOptions options_;
  std::optional<store::VersionRecord> first_;
  bool goes_on_ = false;  // something was published, or the store's newest state was met
  std::unique_ptr<store::ChainWriter> writer_;
};

store::ChainShape shape_of(const std::string& name) {
  if (name == "plain") return store::ChainShape::kPlain;
  return name == "independent" ? store::ChainShape::kIndependent : store::ChainShape::kHybrid;
}

// Engines that read these folders would not see versions of our layout.
Status check_no_version_folders(const std::string& url) {
  constexpr std::string_view kFile = "file:";
  if (!url.starts_with(kFile)) return {};
  const std::string path = url.substr(kFile.size());
  const Result<std::vector<std::string>> names = names_in_folder(path);
  if (!names.ok()) return {};  // the first version makes it
  for (const std::string& name : *names) {
    if (name.starts_with("weight_v"))
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: it has folders of another layout ({}): give another folder, "
                                "or --layout",
                                path, name));
  }
  return {};
}

Result<std::unique_ptr<VersionStore>> open_chain_store(const StoreChoice& choice) {
  SPARCL_ASSIGN_OR_RETURN(auto objects, store::open_store(choice.url, store::Missing::kIsMade));
  auto made = std::make_unique<ChainVersionStore>(std::move(objects));
  store::WriterOptions& options = made->options_;
  SPARCL_ASSIGN_OR_RETURN(options.trust, store::ChainTrust::load({.model_id = choice.model_id,
                                                                  .key_path = choice.key_path}));
  if (choice.anchor_every > 0) options.anchor_every = choice.anchor_every;
  options.keep.versions = choice.keep_versions;
  if (choice.lease_seconds > 0)
    options.keep.lease_s = static_cast<std::int64_t>(std::ceil(choice.lease_seconds));
  options.single_writer = choice.single_writer;
  options.shape = shape_of(choice.chain);
  store::Chain chain(*made->objects_, options.trust);
  SPARCL_ASSIGN_OR_RETURN(made->first_, chain.newest());
  if (!made->first_) SPARCL_RETURN_IF_ERROR(check_no_version_folders(choice.url));
  return std::unique_ptr<VersionStore>(std::move(made));
}

Status ChainVersionStore::begin(const ModelMemory& memory) {
  if (writer_ != nullptr) return {};
  SPARCL_ASSIGN_OR_RETURN(writer_,
                          store::ChainWriter::open(*objects_, chain_state(memory), options_));
  return {};
}

Result<bool> ChainVersionStore::has_state(std::uint64_t places_before, const Hash128& hash) const {
  if (!first_ || places_before >= first_->number) return false;
  if (places_before == 0) return hash == first_->target_hash;
  const store::Chain chain(*objects_, options_.trust);
  SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> record,
                          chain.look(first_->number - places_before));
  return !record || record->target_hash == hash;
}

Result<VersionStore::Stored> ChainVersionStore::publish(
    std::uint64_t version, const ModelMemory& memory, const Hash128& hash,
    const model::Layout& layout, const SideFileSet& side_files, bool has_settled) {
  Stored stored;
  if (first_ && version <= first_->version) {
    if (version == first_->version && hash != first_->target_hash)
      return Status(Code::kMismatch,
                    fmt::format("{}: it holds another version {}, with the state {} instead of "
                                "{}: publish to another store",
                                objects_->location_of(""), version, to_hex(first_->target_hash),
                                to_hex(hash)));
    stored.was_there = true;
    return stored;
  }
  const bool is_first_state = first_ && !goes_on_ && hash == first_->target_hash;
  stored.was_there = is_first_state;
  stored.waits = first_ && !goes_on_ && !is_first_state && !has_settled;
  if (stored.waits) return stored;
  goes_on_ = true;
  if (stored.was_there) return stored;
  SPARCL_RETURN_IF_ERROR(begin(memory));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> description,
                          describe_files(layout, side_files.files));
  SPARCL_RETURN_IF_ERROR(writer_->describe(description));
  SPARCL_RETURN_IF_ERROR(writer_->publish(version));
  const store::VersionRecord& newest = *writer_->newest();
  stored.bytes = newest.delta ? newest.delta->bytes : newest.anchor->bytes;
  stored.changed = writer_->changed();
  stored.is_complete = !newest.delta;
  return stored;
}

}  // namespace

std::vector<std::string> VersionStore::layouts() {
  std::vector<std::string> names{"sparcl"};
  for (const char* const each : LayoutFolder::layouts()) names.emplace_back(each);
  return names;
}

Result<std::unique_ptr<VersionStore>> VersionStore::open(const StoreChoice& choice) {
  if (choice.layout != "sparcl") return LayoutFolder::open(choice);
  return open_chain_store(choice);
}

}  // namespace sparcl::tool
