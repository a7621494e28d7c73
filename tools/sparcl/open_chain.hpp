#pragma once
// A store that is open, and its chain of versions.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "src/store/address/open_store.hpp"
#include "src/store/chain_state.hpp"
#include "src/store/version_chain.hpp"
#include "tools/sparcl/model_memory.hpp"
#include "tools/sparcl/observed_store.hpp"
#include "tools/sparcl/published_model.hpp"

namespace sparcl::tool {

inline constexpr const char* kStoreUrlHelp =
    "file:PATH, the folder of the store, or s3://BUCKET/PREFIX";

struct OpenChain {
  OpenChain(std::unique_ptr<store::ObjectStore> opened, store::ChainTrustRef trust)
      : objects(std::make_unique<ObservedStore>(std::move(opened))),
        chain(*objects, std::move(trust)) {}
  std::unique_ptr<ObservedStore> objects;
  store::Chain chain;
};

Result<std::unique_ptr<OpenChain>> open_chain(const std::string& url, store::Missing missing,
                                              store::ChainTrustRef trust = nullptr);

// "": it is the address of a store. Else why it is none, and what may be meant.
std::string store_url_fault(const std::string& text);
// Whether an argument names a store, and not a publisher.
bool is_store_url(const std::string& text);

// The tensors as src/store sees them.
store::ChainState chain_state(const ModelMemory& memory);

// What a record says of its model: tensors, files, and the files beside them.
struct StoredModel {
  PublishedModel model;
  std::vector<model::SideFile> side_files;
};
// choice: the wanted part, without files beside it.
Result<StoredModel> read_stored_model(const store::Chain& chain, const store::VersionRecord& record,
                                      const PartChoice& choice = {});

// VersionRecord.description of these files.
Result<std::vector<std::byte>> describe_files(const model::Layout& layout,
                                              std::span<const model::SideFile> side_files);

}  // namespace sparcl::tool
