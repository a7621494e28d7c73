#include "tools/sparcl/store_beside.hpp"

#include <fmt/format.h>

#include "src/base/settings.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/open_chain.hpp"

namespace sparcl::tool {
namespace {

Result<store::ChainTrustRef> load_trust(const StoreBesideTrust& trust) {
  return store::ChainTrust::load({.model_id = trust.model_id,
                                  .trust_path = trust.trust_path,
                                  .trust_threshold = trust.trust_threshold});
}

Result<std::optional<PublishedModel>> read_model(const StoreBeside& beside,
                                                 const StoreBesideTrust& trust) {
  SPARCL_ASSIGN_OR_RETURN(store::ChainTrustRef loaded, load_trust(trust));
  SPARCL_ASSIGN_OR_RETURN(const auto open,
                          open_chain(beside.url, store::Missing::kIsMade, std::move(loaded)));
  SPARCL_ASSIGN_OR_RETURN(const std::optional<store::VersionRecord> newest, open->chain.newest());
  std::optional<PublishedModel> model;
  if (!newest) return model;
  SPARCL_ASSIGN_OR_RETURN(StoredModel stored, read_stored_model(open->chain, *newest));
  model = std::move(stored.model);
  return model;
}

}  // namespace

void add_store_beside(CLI::App& app, StoreBeside& beside) {
  app.add_option("--store", beside.url,
                 "store of the publisher: newer versions come from there while the publisher "
                 "cannot be reached")
      ->type_name("URL")
      ->check(store_url_fault, "", "");
  app.add_flag("--from-store", beside.is_first,
               "with --store: versions always come from there, and the publisher only tells of "
               "them");
  app.add_option("--store-patience", beside.patience_s,
                 "with --from-store: a version that the store does not have by then comes from the "
                 "publisher (default: 5)")
      ->type_name("SECONDS")
      ->transform(real_number(0.0, kMaxSeconds));
}

void check_store_beside(const CLI::App& app, bool has_proof, bool has_trusted_keys) {
  const bool has_store = app.count("--store") > 0;
  if (!has_store && app.count("--from-store") > 0)
    throw CLI::ValidationError("--from-store", "needs --store URL: name the publisher's store");
  if (app.count("--from-store") == 0 && app.count("--store-patience") > 0)
    throw CLI::ValidationError("--store-patience",
                               "is for --from-store: add it, or leave this out");
  if (!has_store) return;
  for (const char* const name : {"--tensors", "--slice"}) {
    if (app.count(name) > 0)
      throw CLI::ValidationError(
          name,
          "is not for HOST:PORT with --store, which takes whole models from the store: leave "
          "out --store, or follow the store by `sparcl subscribe URL`");
  }
  if (has_proof && !has_trusted_keys)
    throw CLI::ValidationError("--store",
                               "needs --trust KEYFILE beside a secret or certificates: a store has "
                               "no connection that proves who has written to it");
}

std::optional<PublishedModel> model_beside(const StoreBeside& beside, const StoreBesideTrust& trust,
                                           std::string& told) {
  Result<std::optional<PublishedModel>> read = read_model(beside, trust);
  if (read.ok()) return std::move(*read);
  if (told != read.status().message())
    print_note(fmt::format("the store gives no model: {}", read.status().message()));
  told = read.status().message();
  return std::nullopt;
}

Result<std::unique_ptr<api::StoreFallback>> open_beside(const StoreBeside& beside,
                                                        const StoreBesideTrust& trust,
                                                        const std::optional<Hash128>& brought) {
  SPARCL_ASSIGN_OR_RETURN(store::ChainTrustRef loaded, load_trust(trust));
  SPARCL_ASSIGN_OR_RETURN(auto objects, store::open_store(beside.url, store::Missing::kIsMade));
  api::StoreFallback::Options options{.trust = std::move(loaded), .is_first = beside.is_first};
  options.patience_s = beside.patience_s;
  options.brought = brought;
  return std::make_unique<api::StoreFallback>(std::move(objects), std::move(options));
}

}  // namespace sparcl::tool
