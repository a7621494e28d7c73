// Signatures of files behind the C interface.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/api/call_checks.hpp"
#include "src/api/file_hooks.hpp"
#include "src/model/files/signed_files.hpp"

using sparcl::Code;
using sparcl::Result;
using sparcl::Status;
using sparcl::api::check_text;
using sparcl::api::file_call;

namespace model = sparcl::model;

namespace {

constexpr double kMaxValidSeconds = 100.0 * 365 * 24 * 3600;

std::uint64_t seconds_since_1970() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::string signature_of(const char* given, const char* path) {
  return given != nullptr ? std::string(given) : model::signature_path_of(path);
}

void put_counts(const model::SignatureFile& file, sparclFileReport_t& report) {
  report.files = file.statement.files.size();
  for (const model::SignedFile& each : file.statement.files) report.bytes += each.bytes;
}

Result<model::SignedFacts> facts_of(const sparclFileSignOptions_t& options) {
  if (!(options.valid_s >= 0) || options.valid_s > kMaxValidSeconds)
    return Status(
        Code::kInvalidArgument,
        fmt::format("options.valid_s is {}: give seconds up to 100 years, or 0 for no end",
                    options.valid_s));
  if (options.adds > 1)
    return Status(Code::kInvalidArgument,
                  fmt::format("options.adds is {}: give 1 or 0", options.adds));
  model::SignedFacts facts;
  if (options.model_id != nullptr) facts.model_id = options.model_id;
  facts.version = options.version;
  if (options.valid_s > 0)
    facts.expires = seconds_since_1970() + static_cast<std::uint64_t>(std::ceil(options.valid_s));
  return facts;
}

}  // namespace

extern "C" {

sparclResult_t sparclFileSign(const char* path, const char* key,
                              const sparclFileSignOptions_t* options, sparclFileReport_t* report) {
  const auto work = [&](const sparclFileSignOptions_t& all, const model::FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_text("path", path));
    SPARCL_RETURN_IF_ERROR(check_text("key", key));
    SPARCL_ASSIGN_OR_RETURN(const model::SignedFacts facts, facts_of(all));
    SPARCL_ASSIGN_OR_RETURN(const sparcl::trust::SigningKeysRef keys,
                            sparcl::trust::SigningKeys::load(key));
    SPARCL_ASSIGN_OR_RETURN(const model::SignatureFile made,
                            model::sign_files(path, *keys, signature_of(all.signature, path), facts,
                                              all.adds != 0, watch));
    put_counts(made, full);
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_SIGN_OPTIONS_INITIALIZER, report, work);
}

sparclResult_t sparclFileVerifySignature(const char* path, const char* trust,
                                         const sparclFileSignatureOptions_t* options,
                                         sparclFileReport_t* report) {
  const auto work = [&](const sparclFileSignatureOptions_t& all, const model::FileWatch& watch,
                        sparclFileReport_t& full) -> Status {
    SPARCL_RETURN_IF_ERROR(check_text("path", path));
    SPARCL_RETURN_IF_ERROR(check_text("trust", trust));
    SPARCL_ASSIGN_OR_RETURN(
        const sparcl::trust::TrustedKeys trusted,
        sparcl::trust::TrustedKeys::load(trust, std::max<std::size_t>(all.trust_threshold, 1)));
    model::WantedFacts wanted;
    if (all.model_id != nullptr) wanted.model_id = all.model_id;
    wanted.min_version = all.min_version;
    wanted.now = seconds_since_1970();
    SPARCL_ASSIGN_OR_RETURN(
        const model::SignatureFile found,
        model::check_signed_files(path, trusted, signature_of(all.signature, path), wanted, watch));
    put_counts(found, full);
    return Status();
  };
  return file_call(__func__, options, SPARCL_FILE_SIGNATURE_OPTIONS_INITIALIZER, report, work);
}

}  // extern "C"
