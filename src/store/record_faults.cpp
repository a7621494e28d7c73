#include "src/store/record_faults.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/store/anchor_index.hpp"
#include "src/store/stored_object.hpp"
#include "src/trust/hex.hpp"
#include "src/trust/signing_key.hpp"

namespace sparcl::store {
namespace {

using model::HeldVersion;

// A writer names objects by the records that they connect, and by itself.
bool is_named_by(const StoredObject& object, const char* kind, std::uint64_t number,
                 std::uint64_t from, const std::string& writer) {
  return object.key.starts_with(fmt::format("{}/{:020d}-{:020d}-{}", kind, number, from, writer));
}

std::string fault_of_key(const VersionRecord& record) {
  const bool is_right =
      record.delta
          ? is_named_by(*record.delta, "deltas", record.number, record.number - 1, record.writer)
          : is_named_by(*record.anchor, "anchors", record.number, 0, record.writer);
  if (is_right) return "";
  return fmt::format("its number or its writer is not that of its object {}",
                     record.delta ? record.delta->key : record.anchor->key);
}

std::string fault_of_content_key(const StoredObject& object) {
  if (object.key.ends_with("/" + trust::hex_of(object.digest))) return "";
  return fmt::format("it names {} with another SHA-256", object.key);
}

std::string fault_of_ends(const UpdateEnds& ends, const HeldVersion& target,
                          const HeldVersion& base) {
  const HeldVersion led{ends.target_version, ends.target_hash.value_or(target.hash)};
  if (led != target)
    return fmt::format("its object leads to {}, and it says {}", words_of(led), words_of(target));
  if (ends.base_hash && *ends.base_hash != base.hash)
    return fmt::format("its object leads on from the state {}, and it says {}",
                       to_hex(*ends.base_hash), words_of(base));
  return "";
}

// By its own keys: whom they belong to is the reader's business.
template <class Record>
std::string fault_of_signatures(const Record& record) {
  if (record.signatures.empty()) return "";
  const std::vector<std::byte> text = signed_text(record);
  for (const trust::KeySignature& each : record.signatures)
    if (!trust::is_signature(each.signature, text, each.key))
      return fmt::format("it is not what the key {} has signed", trust::fingerprint(each.key));
  return "";
}

std::string fault_of_anchor(const VersionRecord& record, const BeforeRecord& before) {
  if (record.newest_anchor < before.newest_anchor)
    return fmt::format("it names the anchor of record {}, and the record before it that of {}",
                       record.newest_anchor, before.newest_anchor);
  if (before.has_anchor || record.newest_anchor < before.first) return "";
  return fmt::format("it names the anchor of record {}, which has none", record.newest_anchor);
}

// A writer goes on with the model of the record before, and with one of its keys.
std::string fault_of_writer(const VersionRecord& record, const VersionRecord& before) {
  if (record.model_id != before.model_id)
    return fmt::format("it is of the model '{}', and the record before it of '{}'", record.model_id,
                       before.model_id);
  if (before.signatures.empty()) return "";
  if (record.signatures.empty()) return "it is not signed, and the record before it is";
  for (const trust::KeySignature& each : record.signatures)
    if (std::ranges::find(before.signatures, each.key, &trust::KeySignature::key) !=
        before.signatures.end())
      return "";
  return "it is signed by none of the keys that signed the record before it";
}

std::string first_difference(const std::string& one, const std::string& other) {
  const auto first = nlohmann::json::parse(one), second = nlohmann::json::parse(other);
  for (const auto& [name, value] : first.items())
    if (!second.contains(name) || second[name] != value) return name;
  for (const auto& [name, value] : second.items())
    if (!first.contains(name)) return name;
  return "";
}

}  // namespace

std::string fault_of(const VersionRecord& record, const std::optional<UpdateEnds>& ends,
                     const BeforeRecord& before) {
  if (std::string fault = fault_of_key(record); !fault.empty()) return fault;
  if (std::string fault = fault_of_content_key(record.schema); !fault.empty()) return fault;
  if (record.description) {
    if (std::string fault = fault_of_content_key(*record.description); !fault.empty()) return fault;
  }
  if (record.anchor_index &&
      (!record.anchor || record.anchor_index->key != record.anchor->key + kIndexSuffix))
    return fmt::format("it names {}, which is not the index of its anchor",
                       record.anchor_index->key);
  if (record.number == 1 && record.base() != HeldVersion())
    return fmt::format("it is the first record, and says that it leads on from version {}",
                       record.base_version);
  if (ends) {
    if (std::string fault = fault_of_ends(*ends, record.target(), record.base()); !fault.empty())
      return fault;
  }
  if (before.version && *before.version != record.base())
    return fmt::format("it leads on from {}, and the record before it is {}",
                       words_of(record.base()), words_of(*before.version));
  if (std::string fault = fault_of_anchor(record, before); !fault.empty()) return fault;
  if (before.record != nullptr) {
    if (std::string fault = fault_of_writer(record, *before.record); !fault.empty()) return fault;
  }
  return fault_of_signatures(record);
}

std::string fault_of(const Shortcut& shortcut, const std::optional<UpdateEnds>& ends,
                     const std::optional<HeldVersion>& target,
                     const std::optional<HeldVersion>& base) {
  const bool is_anchor = shortcut.from == 0;
  if (!is_named_by(shortcut.object, is_anchor ? "anchors" : "skips", shortcut.number, shortcut.from,
                   ""))
    return fmt::format("its numbers are not those of its object {}", shortcut.object.key);
  if (shortcut.index && shortcut.index->key != shortcut.object.key + kIndexSuffix)
    return fmt::format("it names {}, which is the index of another anchor", shortcut.index->key);
  if (target && *target != shortcut.target)
    return fmt::format("it leads to {}, and its record is {}", words_of(shortcut.target),
                       words_of(*target));
  if (is_anchor && shortcut.base != HeldVersion())
    return fmt::format("it is an anchor, and says that it leads on from {}",
                       words_of(shortcut.base));
  if (base && *base != shortcut.base)
    return fmt::format("it leads on from {}, and that record is {}", words_of(shortcut.base),
                       words_of(*base));
  if (ends) {
    if (std::string fault = fault_of_ends(*ends, shortcut.target, shortcut.base); !fault.empty())
      return fault;
  }
  return fault_of_signatures(shortcut);
}

std::string differing_field(const VersionRecord& one, const VersionRecord& other) {
  return first_difference(serialise(one), serialise(other));
}

std::string differing_field(const Shortcut& one, const Shortcut& other) {
  return first_difference(serialise(one), serialise(other));
}

}  // namespace sparcl::store
