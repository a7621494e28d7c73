#pragma once
// Whose records a chain has: who signs them, and whose signatures readers require.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "src/base/status.hpp"
#include "src/store/version_record.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::store {

// The files of keys, as users name them; "": none.
struct TrustFiles {
  std::string model_id = {}, key_path = {}, trust_path = {};
  std::size_t trust_threshold = 1;
};

struct ChainTrust {
  // Reads the files once.
  static Result<std::shared_ptr<const ChainTrust>> load(const TrustFiles& files);

  std::string model_id = {};                       // of writers; readers with one refuse others
  trust::SigningKeysRef keys = nullptr;            // nullptr: writers do not sign
  std::optional<trust::TrustedKeys> trusted = {};  // nullopt: readers require no signature

  // Signs what has no signature yet.
  void sign(VersionRecord& record) const;
  void sign(Shortcut& shortcut) const;
  // Unauthorized: it is not signed by trusted keys. Mismatch: it is of another model.
  Status check(const VersionRecord& record) const;
  Status check(const Shortcut& shortcut) const;
  // Whether readers of `newest` would take what a writer with these keys, and this model, adds.
  Status check_goes_on(const VersionRecord& newest) const;
  Status check_keys(const VersionRecord& newest) const;
};
using ChainTrustRef = std::shared_ptr<const ChainTrust>;

}  // namespace sparcl::store
