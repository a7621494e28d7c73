#include "src/replication/replica_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "src/base/log.hpp"
#include "src/replication/publisher_epoch.hpp"
#include "src/replication/record_file.hpp"
#include "src/trust/hex.hpp"
#include "src/trust/key_file.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kRecordKind = "sparcl replica record 1";
constexpr std::string_view kRecordSuffix = ".sparcl-record";
constexpr std::size_t kMaxNameBytes =
    255 - 24;  // the system's, less what a temporary name adds to it

Status damaged_record(const std::string& path) {
  return Status(Code::kCorrupt,
                fmt::format("{}: the record of what was held last is damaged: versions that are "
                            "older cannot be told from newer ones. Remove it to begin without it "
                            "(then any version that a trusted key has signed is taken once)",
                            path));
}

}  // namespace

std::string record_path_of(const std::string& file) {
  const std::filesystem::path path(file);
  std::string name = path.filename().string() + std::string(kRecordSuffix);
  if (name.size() > kMaxNameBytes) {
    const std::string whole = path.filename().string();
    name = to_hex(xxh3_128(std::as_bytes(std::span(whole)))) + std::string(kRecordSuffix);
  }
  return (path.parent_path() / name).string();
}

Result<std::optional<Offer>> load_replica_record(const std::string& path,
                                                 const trust::TrustedKeys& trusted,
                                                 const std::optional<std::string>& model_id) {
  const Result<std::optional<RecordFields>> fields = read_record(path, kRecordKind);
  if (!fields.ok() && fields.status().code() == Code::kCorrupt) return damaged_record(path);
  if (!fields.ok()) return fields.status();
  if (!*fields) return std::optional<Offer>();
  Result<Offer> latest = parse_offer(trust::bytes_of_hex(field_of(**fields, "commit")));
  if (!latest.ok() || latest->signatures.empty()) return damaged_record(path);
  if (!trusted.trusts_any(latest->signatures)) {
    log_warn(
        "replication: {}: version {} was signed by the key {}, which is not trusted any more: the "
        "record does not count",
        path, latest->commit.version, trust::fingerprint(latest->signatures.front().key));
    return std::optional<Offer>();
  }
  // Its own file: one key that is still trusted is enough, whatever the threshold.
  const std::vector<std::byte> bytes = serialise(latest->commit);
  const auto is_wrong = [&](const trust::KeySignature& each) {
    return trusted.trusts(each.key) && !trust::is_signature(each.signature, bytes, each.key);
  };
  if (std::ranges::any_of(latest->signatures, is_wrong)) return damaged_record(path);
  if (model_id && latest->commit.model_id != *model_id) {
    return Status(Code::kMismatch,
                  fmt::format("{}: the record is of the model '{}', asked for is '{}': give "
                              "another output, or remove it to replace what is there",
                              path, latest->commit.model_id, *model_id));
  }
  return std::optional(std::move(*latest));
}

Status save_replica_record(const std::string& path, const Offer& latest) {
  if (latest.signatures.empty())
    return Status(Code::kInternalError,
                  fmt::format("{}: what is to be recorded is not signed", path));
  return write_record(path, kRecordKind,
                      {{"model_id", latest.commit.model_id},
                       {"version", std::to_string(latest.commit.version)},
                       {"hash", to_hex(latest.commit.target_hash)},
                       {"publisher_began", epoch_text(latest.commit.epoch)},
                       {"key", trust::public_key_line(latest.signatures.front().key)},
                       {"commit", trust::hex_of(serialise(latest))}});
}

}  // namespace sparcl::replication
