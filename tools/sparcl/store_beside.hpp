#pragma once
// A store beside the publisher of `sparcl subscribe HOST:PORT`: versions come from there while the
// publisher is away, or always.

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "src/api/store_fallback.hpp"
#include "tools/sparcl/published_model.hpp"

namespace sparcl::tool {

struct StoreBeside {
  std::string url;        // "": none
  bool is_first = false;  // the publisher only tells of versions
  double patience_s = api::StoreFallback::kPatience;

  bool is_on() const { return !url.empty(); }
};

void add_store_beside(CLI::App& app, StoreBeside& beside);
// Throws ValidationError. has_proof: the publisher must show who it is.
void check_store_beside(const CLI::App& app, bool has_proof, bool has_trusted_keys);

struct StoreBesideTrust {
  std::string model_id, trust_path;
  std::size_t trust_threshold = 1;
};
// The model of its newest version; nullopt: there is none, which is said in a note, if it is not
// the one that was told last.
std::optional<PublishedModel> model_beside(const StoreBeside& beside, const StoreBesideTrust& trust,
                                           std::string& told);
// brought: the hash of what the tensors hold, by the user's own file; nullopt: nothing.
Result<std::unique_ptr<api::StoreFallback>> open_beside(const StoreBeside& beside,
                                                        const StoreBesideTrust& trust,
                                                        const std::optional<Hash128>& brought);

}  // namespace sparcl::tool
