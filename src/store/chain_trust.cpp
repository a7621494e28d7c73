#include "src/store/chain_trust.hpp"

#include <fmt/format.h>

#include "src/model/text.hpp"

namespace sparcl::store {
namespace {

template <class Record>
void sign_record(const ChainTrust& trust, Record& record) {
  if (trust.keys == nullptr || !record.signatures.empty()) return;
  record.signatures = trust.keys->sign(signed_text(record));
}

template <class Record>
Status check_signed(const ChainTrust& trust, const Record& record) {
  if (!trust.model_id.empty() && record.model_id != trust.model_id)
    return Status(
        Code::kMismatch,
        fmt::format("it is of the model {}, and {} is wanted: is the store's address right?",
                    model::in_quotes(record.model_id), model::in_quotes(trust.model_id)));
  if (!trust.trusted) return {};
  if (record.signatures.empty())
    return Status(Code::kUnauthorized,
                  "it is not signed, and only what trusted keys have signed is read: publish with "
                  "a key (sparcl publish --key), or read without trusted keys");
  return trust.trusted->verify(signed_text(record), record.signatures);
}

}  // namespace

Result<ChainTrustRef> ChainTrust::load(const TrustFiles& files) {
  ChainTrust trust{.model_id = files.model_id};
  if (!files.key_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trust.keys, trust::SigningKeys::load(files.key_path));
  }
  if (!files.trust_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(trust.trusted,
                            trust::TrustedKeys::load(files.trust_path, files.trust_threshold));
    SPARCL_RETURN_IF_ERROR(trust.trusted->check_threshold());
  }
  return std::make_shared<const ChainTrust>(std::move(trust));
}

void ChainTrust::sign(VersionRecord& record) const { sign_record(*this, record); }

void ChainTrust::sign(Shortcut& shortcut) const { sign_record(*this, shortcut); }

Status ChainTrust::check(const VersionRecord& record) const { return check_signed(*this, record); }

Status ChainTrust::check(const Shortcut& shortcut) const { return check_signed(*this, shortcut); }

Status ChainTrust::check_goes_on(const VersionRecord& newest) const {
  if (!newest.model_id.empty() && model_id.empty())
    return Status(
        Code::kMismatch,
        fmt::format("version {} of the store is of the model {}, and this publisher names "
                    "none: give its name (--model-id), or publish to another store",
                    newest.version, model::in_quotes(newest.model_id)));
  return check_keys(newest);
}

Status ChainTrust::check_keys(const VersionRecord& newest) const {
  if (newest.signatures.empty()) return {};
  if (keys == nullptr)
    return Status(
        Code::kUnauthorized,
        fmt::format("version {} of the store is signed, and readers with trusted keys "
                    "would refuse what is added without a signature: give the key (--key), "
                    "or publish to another store",
                    newest.version));
  for (const trust::KeySignature& each : newest.signatures) {
    if (keys->has(each.key)) return {};
  }
  return Status(
      Code::kUnauthorized,
      fmt::format("version {} of the store is signed by other keys than these, and its readers may "
                  "not trust these: to replace a key, publish a version with both keys in one file "
                  "first, or publish to another store",
                  newest.version));
}

}  // namespace sparcl::store
