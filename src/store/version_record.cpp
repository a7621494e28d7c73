#include "src/store/version_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/store/object_store.hpp"
#include "src/trust/hex.hpp"

namespace sparcl::store {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr std::size_t kWriterDigits = 32;

using trust::hex_of;

// False: it has other characters, or another length.
bool read_hex(const std::string& text, std::span<std::byte> out) {
  const std::vector<std::byte> bytes = trust::bytes_of_hex(text);
  if (bytes.size() != out.size()) return false;
  std::ranges::copy(bytes, out.begin());
  return true;
}

Json json_of(const StoredObject& object) {
  return {{"key", object.key}, {"bytes", object.bytes}, {"sha256", hex_of(object.digest)}};
}

// Records and other small objects are none.
bool is_object_key(const std::string& key) {
  const std::size_t slash = key.find('/');
  const std::string folder = key.substr(0, slash);
  return slash != std::string::npos && check_key(key).ok() &&
         (folder == "deltas" || folder == "skips" || folder == "anchors" || folder == "schemas" ||
          folder == "descriptions");
}

// Reads fields, and remembers the first that is not what it has to be.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  std::uint64_t number(const char* name) {
    const Json* const field = find(name);
    if (field != nullptr && field->is_number_unsigned()) return field->get<std::uint64_t>();
    return refuse(name), 0;
  }
  std::string text(const char* name) {
    const Json* const field = find(name);
    if (field != nullptr && field->is_string()) return field->get<std::string>();
    return refuse(name), "";
  }
  void hex(const char* name, std::span<std::byte> out) {
    if (!read_hex(text(name), out)) refuse(name);
  }
  Hash128 hash(const char* name) {
    Hash128 hash;
    hex(name, std::as_writable_bytes(std::span(&hash, 1)));
    return hash;
  }
  StoredObject object(const char* name) {
    const Json* const field = find(name);
    StoredObject read;
    if (field == nullptr || !field->is_object()) return refuse(name), read;
    Fields own(*field);
    read.key = own.text("key");
    read.bytes = own.number("bytes");
    own.hex("sha256", read.digest);
    if (!own.wrong_.empty() || !is_object_key(read.key)) refuse(name);
    return read;
  }
  std::optional<StoredObject> object_or_none(const char* name) {
    return has(name) ? std::optional(object(name)) : std::nullopt;
  }
  std::string text_or_none(const char* name) { return has(name) ? text(name) : ""; }
  bool flag(const char* name) {
    const Json* const field = find(name);
    if (field == nullptr || field->is_boolean()) return field != nullptr && field->get<bool>();
    return refuse(name), false;
  }
  trust::Signatures signatures(const char* name) {
    trust::Signatures read;
    const Json* const field = find(name);
    if (field == nullptr) return read;
    if (!field->is_array() || field->empty() || field->size() > trust::kMaxSignatures)
      return refuse(name), read;
    for (const Json& each : *field) {
      if (!each.is_object()) return refuse(name), read;
      Fields own(each);
      own.hex("key", std::as_writable_bytes(std::span(read.emplace_back().key)));
      own.hex("signature", std::as_writable_bytes(std::span(read.back().signature)));
      if (!own.wrong_.empty()) refuse(name);
    }
    return read;
  }
  bool has(const char* name) const { return object_.contains(name); }
  void refuse(const char* name) {
    if (wrong_.empty()) wrong_ = name;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const Json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  std::string wrong_;
};

std::string hex_hash(const Hash128& hash) { return hex_of(std::as_bytes(std::span(&hash, 1))); }

Status no_such(const char* what, const std::string& why) {
  return Status(Code::kCorrupt, fmt::format("it is no {}: {}", what, why));
}

Status wrong_field(const char* what, const std::string& name) {
  return no_such(what, "'" + name + "' is not what it has to be");
}

// A JSON object of our format.
Result<Json> parse_object(std::span<const std::byte> bytes, const char* what) {
  if (bytes.size() > kMaxRecordBytes)
    return no_such(what, fmt::format("it has {} bytes", bytes.size()));
  const auto* const text = reinterpret_cast<const char*>(bytes.data());
  Json json = Json::parse(text, text + bytes.size(), nullptr, false);
  if (!json.is_object()) return no_such(what, "it is no JSON object");
  Fields fields(json);
  const std::uint64_t format = fields.number("format");
  if (!fields.wrong().empty()) return wrong_field(what, fields.wrong());
  if (format == kFormat) return json;
  return Status(Code::kUnsupported,
                fmt::format("its format is {}, and this library reads {}: update the library",
                            format, kFormat));
}

}  // namespace

namespace {

void add_signatures(Json& json, const trust::Signatures& signatures) {
  for (const trust::KeySignature& each : signatures)
    json["signatures"].push_back({{"key", hex_of(std::as_bytes(std::span(each.key)))},
                                  {"signature", hex_of(std::as_bytes(std::span(each.signature)))}});
}

std::vector<std::byte> text_to_sign(const char* what, const std::string& text) {
  const std::string all = std::string(what) + '\n' + text;
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<std::byte> signed_text(VersionRecord record) {
  record.signatures.clear();
  return text_to_sign("sparcl store: record of a version", serialise(record));
}

std::vector<std::byte> signed_text(Shortcut shortcut) {
  shortcut.signatures.clear();
  return text_to_sign("sparcl store: shortcut to a version", serialise(shortcut));
}

std::string words_of(const model::HeldVersion& version) {
  return fmt::format("version {} with the state {}", version.version, to_hex(version.hash));
}

std::string serialise(const VersionRecord& record) {
  Json json{{"format", kFormat},
            {"number", record.number},
            {"version", record.version},
            {"base_version", record.base_version},
            {"writer", record.writer},
            {"target_hash", hex_hash(record.target_hash)},
            {"base_hash", hex_hash(record.base_hash)},
            {"schema", json_of(record.schema)},
            {"newest_anchor", record.newest_anchor}};
  if (record.delta) json["delta"] = json_of(*record.delta);
  if (record.anchor) json["anchor"] = json_of(*record.anchor);
  if (!record.model_id.empty()) json["model_id"] = record.model_id;
  if (record.description) json["description"] = json_of(*record.description);
  if (record.skips_from_anchor) json["skips_from_anchor"] = true;
  if (record.anchor_index) json["anchor_index"] = json_of(*record.anchor_index);
  add_signatures(json, record.signatures);
  return json.dump(1) + "\n";
}

std::string serialise(const Shortcut& shortcut) {
  Json json{{"format", kFormat},
            {"number", shortcut.number},
            {"from", shortcut.from},
            {"version", shortcut.target.version},
            {"base_version", shortcut.base.version},
            {"target_hash", hex_hash(shortcut.target.hash)},
            {"base_hash", hex_hash(shortcut.base.hash)},
            {"object", json_of(shortcut.object)}};
  if (!shortcut.model_id.empty()) json["model_id"] = shortcut.model_id;
  if (shortcut.index) json["index"] = json_of(*shortcut.index);
  add_signatures(json, shortcut.signatures);
  return json.dump(1) + "\n";
}

Result<VersionRecord> parse_record(std::span<const std::byte> bytes) {
  constexpr const char* kWhat = "record of a version";
  SPARCL_ASSIGN_OR_RETURN(const Json json, parse_object(bytes, kWhat));
  Fields fields(json);
  VersionRecord record;
  record.number = fields.number("number");
  record.version = fields.number("version");
  record.base_version = fields.number("base_version");
  record.writer = fields.text("writer");
  record.target_hash = fields.hash("target_hash");
  record.base_hash = fields.hash("base_hash");
  record.newest_anchor = fields.number("newest_anchor");
  record.schema = fields.object("schema");
  if (record.number > 1)
    record.delta = fields.object("delta");
  else
    record.anchor = fields.object("anchor");
  record.model_id = fields.text_or_none("model_id");
  record.description = fields.object_or_none("description");
  record.anchor_index = fields.object_or_none("anchor_index");
  record.skips_from_anchor = fields.flag("skips_from_anchor");
  record.signatures = fields.signatures("signatures");
  if (record.writer.size() != kWriterDigits) fields.refuse("writer");
  if (record.number == 0 || record.number > kMaxRecordNumber) fields.refuse("number");
  if (record.newest_anchor == 0 || record.newest_anchor > record.number)
    fields.refuse("newest_anchor");
  if (record.version <= record.base_version) fields.refuse("version");
  if (!fields.wrong().empty()) return wrong_field(kWhat, fields.wrong());
  return record;
}

Result<Shortcut> parse_shortcut(std::span<const std::byte> bytes) {
  constexpr const char* kWhat = "shortcut to a version";
  SPARCL_ASSIGN_OR_RETURN(const Json json, parse_object(bytes, kWhat));
  Fields fields(json);
  Shortcut shortcut;
  shortcut.number = fields.number("number");
  shortcut.from = fields.number("from");
  shortcut.target = {fields.number("version"), fields.hash("target_hash")};
  shortcut.base = {fields.number("base_version"), fields.hash("base_hash")};
  shortcut.object = fields.object("object");
  shortcut.model_id = fields.text_or_none("model_id");
  shortcut.index = fields.object_or_none("index");
  shortcut.signatures = fields.signatures("signatures");
  if (shortcut.number <= shortcut.from) fields.refuse("from");
  if (shortcut.target.version <= shortcut.base.version) fields.refuse("version");
  if (!fields.wrong().empty()) return wrong_field(kWhat, fields.wrong());
  return shortcut;
}

}  // namespace sparcl::store
