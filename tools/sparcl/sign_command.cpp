#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/shown_text.hpp"
#include "src/model/files/signed_files.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/progress.hpp"

namespace sparcl::tool {
namespace {

constexpr double kDaySeconds = 24 * 3600;
constexpr double kMaxDays = 36'500;

std::uint64_t seconds_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

model::FileWatch watch_of(Progress& progress) {
  model::FileWatch watch;
  watch.on_progress = [&progress](std::uint64_t done, std::uint64_t total) {
    progress.update(done, total);
    return Status();
  };
  return watch;
}

std::uint64_t byte_count(const model::SignatureFile& file) {
  std::uint64_t bytes = 0;
  for (const model::SignedFile& each : file.statement.files) bytes += each.bytes;
  return bytes;
}

std::vector<std::string> fingerprints(const model::SignatureFile& file) {
  std::vector<std::string> names;
  for (const trust::KeySignature& each : file.signatures)
    names.push_back(trust::fingerprint(each.key));
  return names;
}

Json json_of(const model::SignatureFile& file, const std::string& signature_path) {
  const model::SignedFacts& facts = file.statement.facts;
  return {{"signature", signature_path},
          {"files", file.statement.files.size()},
          {"bytes", byte_count(file)},
          {"model_id", facts.model_id},
          {"version", facts.version},
          {"expires", facts.expires ? Json(*facts.expires) : Json(nullptr)},
          {"keys", fingerprints(file)}};
}

std::string text_of(const model::SignatureFile& file) {
  const model::SignedFacts& facts = file.statement.facts;
  std::string text = fmt::format("{} {}, {}", file.statement.files.size(),
                                 file.statement.files.size() == 1 ? "file" : "files",
                                 human_bytes(byte_count(file)));
  if (!facts.model_id.empty()) text += fmt::format(", model {}", shown(facts.model_id));
  if (facts.version > 0) text += fmt::format(", version {}", facts.version);
  return text + fmt::format("; signed by {}", fmt::join(fingerprints(file), ", "));
}

// --- sign ---

struct SignOptions {
  std::string path, key_path, signature_path;
  model::SignedFacts facts;
  double days = 0;
  bool adds = false;
};

Status run_sign(SignOptions options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const trust::SigningKeysRef keys,
                          trust::SigningKeys::load(options.key_path));
  if (options.signature_path.empty())
    options.signature_path = model::signature_path_of(options.path);
  if (options.days > 0)
    options.facts.expires = seconds_now() + static_cast<std::uint64_t>(options.days * kDaySeconds);
  std::optional<Progress> progress(std::in_place, "sign");
  SPARCL_ASSIGN_OR_RETURN(const model::SignatureFile made,
                          model::sign_files(options.path, *keys, options.signature_path,
                                            options.facts, options.adds, watch_of(*progress)));
  progress.reset();
  return print(as_json, json_of(made, options.signature_path),
               fmt::format("{}  {}\n", shown(options.signature_path), text_of(made)));
}

// --- verify-signature ---

struct CheckOptions {
  std::string path, trust_path, signature_path;
  std::size_t threshold = 1;
  model::WantedFacts wanted;
};

Status run_check(CheckOptions options, bool as_json) {
  SPARCL_ASSIGN_OR_RETURN(const trust::TrustedKeys trusted,
                          trust::TrustedKeys::load(options.trust_path, options.threshold));
  if (options.signature_path.empty())
    options.signature_path = model::signature_path_of(options.path);
  options.wanted.now = seconds_now();
  std::optional<Progress> progress(std::in_place, "verify-signature");
  SPARCL_ASSIGN_OR_RETURN(const model::SignatureFile found,
                          model::check_signed_files(options.path, trusted, options.signature_path,
                                                    options.wanted, watch_of(*progress)));
  progress.reset();
  return print(as_json, json_of(found, options.signature_path),
               fmt::format("{}: ok: {}\n", shown(options.path), text_of(found)));
}

void add_signature_option(CLI::App& app, std::string& path) {
  app.add_option("--signature", path, "the signature file (default: PATH.sparcl-sig)")
      ->type_name("FILE")
      ->check(empty_name_fault);
}

}  // namespace

void add_sign(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SignOptions>();
  app.add_option("PATH", options->path, "a checkpoint, a delta, or any file or folder")->required();
  app.add_option("--key", options->key_path, "of sparcl keygen: it signs by each of its keys")
      ->required()
      ->type_name("FILE")
      ->check(empty_name_fault);
  add_signature_option(app, options->signature_path);
  app.add_option("--model-id", options->facts.model_id, "the model's name, which is signed, too")
      ->type_name("ID");
  app.add_option("--model-version", options->facts.version,
                 "the model's version, which is signed, too: readers refuse an older one by "
                 "--min-version")
      ->transform(whole_number(1, 1ULL << 62))
      ->type_name("N");
  app.add_flag("--add", options->adds,
               "add a signature to the signature file that is there, of the same files. Read it "
               "first: its model id, version and end are signed again");
  app.add_option("--expires", options->days, "from now; readers refuse it afterwards")
      ->type_name("DAYS")
      ->transform(real_number(0.001, kMaxDays));
  invocation.run = [options, &invocation] { return run_sign(*options, invocation.json); };
}

void add_verify_signature(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<CheckOptions>();
  app.add_option("PATH", options->path, "what was signed: all of its files, and no others")
      ->required();
  app.add_option("--trust", options->trust_path, "public keys, a line each")
      ->required()
      ->type_name("KEYFILE")
      ->check(empty_name_fault);
  app.add_option("--trust-threshold", options->threshold,
                 "so many of these keys must have signed (default: 1)")
      ->transform(whole_number(1, trust::kMaxSignatures))
      ->type_name("N");
  add_signature_option(app, options->signature_path);
  app.add_option("--model-id", options->wanted.model_id, "refuse files of another model")
      ->type_name("ID");
  app.add_option("--min-version", options->wanted.min_version, "refuse an older version")
      ->transform(whole_number(1, 1ULL << 62))
      ->type_name("N");
  invocation.run = [options, &invocation] { return run_check(*options, invocation.json); };
}

}  // namespace sparcl::tool
