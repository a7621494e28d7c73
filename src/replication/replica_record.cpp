#include "src/replication/replica_record.hpp"

#include <fmt/format.h>

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
  if (!latest.ok() || !latest->signature) return damaged_record(path);
  if (!trusted.trusts(latest->signature->key)) {
    log_warn(
        "replication: {}: version {} was signed by the key {}, which is not trusted any more: the "
        "record does not count",
        path, latest->commit.version, trust::fingerprint(latest->signature->key));
    return std::optional<Offer>();
  }
  const Status signature = trusted.verify(serialise(latest->commit), latest->signature->key,
                                          latest->signature->signature);
  if (!signature.ok()) return damaged_record(path);
  if (model_id && latest->commit.model_id != *model_id) {
    return Status(Code::kMismatch,
                  fmt::format("{}: the record is of the model '{}', asked for is '{}': give "
                              "another output, or remove it to replace what is there",
                              path, latest->commit.model_id, *model_id));
  }
  return std::optional(std::move(*latest));
}

Status save_replica_record(const std::string& path, const Offer& latest) {
  if (!latest.signature)
    return Status(Code::kInternalError,
                  fmt::format("{}: what is to be recorded is not signed", path));
  return write_record(path, kRecordKind,
                      {{"model_id", latest.commit.model_id},
                       {"version", std::to_string(latest.commit.version)},
                       {"hash", to_hex(latest.commit.target_hash)},
                       {"publisher_began", epoch_text(latest.commit.epoch)},
                       {"key", trust::public_key_line(latest.signature->key)},
                       {"commit", trust::hex_of(serialise(latest))}});
}

}  // namespace sparcl::replication
