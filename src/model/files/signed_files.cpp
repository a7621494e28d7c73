#include "src/model/files/signed_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "src/base/files/atomic_file.hpp"
#include "src/base/files/file_reader.hpp"
#include "src/base/folder_list.hpp"
#include "src/base/shown_text.hpp"
#include "src/trust/hex.hpp"
#include "src/trust/key_file.hpp"

namespace sparcl::model {
namespace {

constexpr std::string_view kSignedKind = "sparcl signed files 1\n";
constexpr std::string_view kSignatureSuffix = ".sparcl-sig";
constexpr std::size_t kMaxSignatureFileBytes = std::size_t{64} << 20;
constexpr std::size_t kMaxSignedFiles = 100'000;
constexpr std::size_t kMaxFactBytes = 4096;
constexpr int kMaxFolderDepth = 16;
constexpr std::size_t kDigestPiece = std::size_t{1} << 20;

bool has_control_characters(std::string_view text) {
  return std::ranges::any_of(
      text, [](char each) { return static_cast<unsigned char>(each) < 0x20 || each == 0x7f; });
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// --- the files ---

struct FoundFile {
  std::string name, path;
  std::uint64_t bytes = 0;
};

// entries: of all folders until now. A link may lead to a folder again and again.
Status find_files(const std::string& folder, const std::string& prefix, int depth,
                  std::vector<FoundFile>& found, std::size_t& entries) {
  if (depth > kMaxFolderDepth)
    return Status(Code::kUnsupported, fmt::format("{}: folders lie deeper than {} in each other",
                                                  folder, kMaxFolderDepth));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in_folder(folder));
  for (const std::string& each : names) {
    const std::string path = folder + "/" + each;
    if (has_control_characters(each))
      return Status(Code::kUnsupported,
                    fmt::format("{}: a name with control characters cannot be signed: rename it",
                                shown(path)));
    struct stat about;
    if (::stat(path.c_str(), &about) != 0) return system_error(path, "cannot be examined");
    if (S_ISDIR(about.st_mode)) {
      SPARCL_RETURN_IF_ERROR(find_files(path, prefix + each + "/", depth + 1, found, entries));
    } else if (S_ISREG(about.st_mode)) {
      found.push_back({prefix + each, path, static_cast<std::uint64_t>(about.st_size)});
    } else {
      return Status(Code::kUnsupported,
                    fmt::format("{}: it is neither a file nor a folder: remove it", path));
    }
    if (++entries > kMaxSignedFiles)
      return Status(Code::kUnsupported, fmt::format("{}: there are more than {} files and folders",
                                                    folder, kMaxSignedFiles));
  }
  return {};
}

Result<std::vector<FoundFile>> files_of(const std::string& given) {
  const std::string path = without_slash(given);
  std::vector<FoundFile> found;
  std::size_t entries = 0;
  struct stat about;
  if (::stat(path.c_str(), &about) != 0) return system_error(path, "cannot be examined");
  if (S_ISDIR(about.st_mode)) {
    SPARCL_RETURN_IF_ERROR(find_files(path, "", 0, found, entries));
    if (found.empty())
      return Status(Code::kInvalidArgument, fmt::format("{}: there is no file in it", path));
  } else {
    found.push_back(
        {path.substr(path.rfind('/') + 1), path, static_cast<std::uint64_t>(about.st_size)});
  }
  std::ranges::sort(found, {}, &FoundFile::name);
  return found;
}

// --- the text ---

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_all = error == std::errc() && end == text.data() + text.size();
  const bool is_canonical = text.size() == 1 || !text.starts_with('0');
  return is_all && is_canonical ? std::optional(number) : std::nullopt;
}

std::string_view take_part(std::string_view& rest, char end) {
  const std::size_t at = std::min(rest.find(end), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

// Inside the folder, and exactly one form of it.
bool is_safe_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxFactBytes || has_control_characters(name)) return false;
  while (!name.empty()) {
    const bool ends_here = name.find('/') == std::string_view::npos;
    const std::string_view part = take_part(name, '/');
    if (part.empty() || part == "." || part == ".." || (!ends_here && name.empty())) return false;
  }
  return true;
}

std::optional<SignedFile> parse_file_line(std::string_view line) {
  SignedFile file;
  const std::vector<std::byte> digest = trust::bytes_of_hex(std::string(take_part(line, ' ')));
  if (digest.size() != file.digest.size()) return {};
  std::memcpy(file.digest.data(), digest.data(), digest.size());
  const std::optional<std::uint64_t> bytes = number_of(take_part(line, ' '));
  if (!bytes || !is_safe_name(line)) return {};
  file.bytes = *bytes;
  file.name = line;
  return file;
}

std::optional<trust::KeySignature> parse_signature_line(std::string_view line) {
  trust::KeySignature made;
  const std::string_view kind = take_part(line, ' ');
  if (kind != trust::kPublicKeyKind ||
      trust::decode_key(take_part(line, ' '), made.key).has_value())
    return {};
  const std::vector<std::byte> bytes = trust::bytes_of_hex(std::string(line));
  if (bytes.size() != made.signature.size()) return {};
  std::ranges::copy(bytes, made.signature.begin());
  return made;
}

// The facts and files of the lines before the signatures; false: a line is none.
bool parse_statement_line(std::string_view line, SignedStatement& statement) {
  const std::string_view kind = take_part(line, ' ');
  if (kind == "model") {
    statement.facts.model_id = line;
    return !line.empty() && line.size() <= kMaxFactBytes;
  }
  if (kind == "version") {
    statement.facts.version = number_of(line).value_or(0);
    return statement.facts.version > 0;
  }
  if (kind == "expires") {
    statement.facts.expires = number_of(line);
    return statement.facts.expires.has_value();
  }
  if (kind != "file" || statement.files.size() >= kMaxSignedFiles) return false;
  std::optional<SignedFile> file = parse_file_line(line);
  if (!file) return false;
  statement.files.push_back(std::move(*file));
  return true;
}

std::string signature_lines(const trust::Signatures& signatures) {
  std::string text;
  for (const trust::KeySignature& each : signatures)
    text += fmt::format("signature {} {}\n", trust::public_key_line(each.key),
                        trust::hex_of(each.signature));
  return text;
}

Result<SignatureFile> load_signature_file(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(path));
  if (file.byte_count() > kMaxSignatureFileBytes)
    return Status(Code::kCorrupt,
                  fmt::format("{}: it has more than {} bytes, no signature file does", path,
                              kMaxSignatureFileBytes));
  std::string text(static_cast<std::size_t>(file.byte_count()), '\0');
  SPARCL_RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(text))));
  return parse_signature_file(text, path);
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A signature file inside what it signs would be one of its files.
Status check_outside(const std::string& signature_path, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(path, error);
  const fs::path file = fs::weakly_canonical(signature_path, error);
  const auto [end, rest] = std::ranges::mismatch(folder, file);
  if (error || end != folder.end() || !fs::is_directory(folder, error)) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}: it is inside of what is signed: give another place (--signature, "
                            "options.signature)",
                            signature_path));
}

// A signature file that others have made, before its facts are signed again.
Result<SignatureFile> load_to_add(const std::string& path, const SignedFacts& facts) {
  SPARCL_ASSIGN_OR_RETURN(SignatureFile found, load_signature_file(path));
  const std::string text = serialise(found.statement);
  const auto is_wrong = [&](const trust::KeySignature& each) {
    return !trust::is_signature(each.signature, bytes_of_text(text), each.key);
  };
  if (std::ranges::any_of(found.signatures, is_wrong))
    return Status(Code::kCorrupt,
                  fmt::format("{}: a signature there is wrong: remove the file, and "
                              "let all sign again",
                              path));
  if (facts != SignedFacts() && facts != found.statement.facts)
    return Status(Code::kMismatch,
                  fmt::format("{}: it has another model id, version or end: remove it, or leave "
                              "these options out to add a signature",
                              path));
  return found;
}

// --- checks ---

std::string time_text(std::uint64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (seconds > INT64_MAX / 2 || ::gmtime_r(&time, &parts) == nullptr)
    return fmt::format("second {}", seconds);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

Status check_facts(const SignedFacts& facts, const WantedFacts& wanted, const std::string& path) {
  const auto refused = [&](std::string why) {
    return Status(Code::kUnauthorized, fmt::format("{}: {}", path, why));
  };
  if (facts.expires && *facts.expires < wanted.now)
    return refused(
        fmt::format("the signature has expired on {}: get a newer one", time_text(*facts.expires)));
  if (wanted.model_id && facts.model_id != *wanted.model_id)
    return refused(fmt::format("it is of the model '{}', wanted is '{}'", shown(facts.model_id),
                               shown(*wanted.model_id)));
  if (facts.version < wanted.min_version)
    return refused(fmt::format("it is of version {}, wanted is {} or a later one", facts.version,
                               wanted.min_version));
  return {};
}

// Before anything is read: names and sizes.
Status compare_names(const std::vector<SignedFile>& wanted, const std::vector<FoundFile>& found,
                     const std::string& path) {
  const auto other = [&](std::string_view name, std::string_view what) {
    return Status(Code::kCorrupt, fmt::format("{}: the file '{}' {}", path, shown(name), what));
  };
  for (const SignedFile& each : wanted) {
    const auto there = std::ranges::lower_bound(found, each.name, {}, &FoundFile::name);
    if (there == found.end() || there->name != each.name)
      return other(each.name, "was signed, and is not there");
    if (there->bytes != each.bytes)
      return other(each.name,
                   fmt::format("has {} bytes, {} were signed", there->bytes, each.bytes));
  }
  for (const FoundFile& each : found) {
    if (!std::ranges::binary_search(wanted, each.name, {}, &SignedFile::name))
      return other(each.name, "is not among the files that were signed: remove it, or sign again");
  }
  return {};
}

}  // namespace

std::string signature_path_of(const std::string& path) {
  return without_slash(path) + std::string(kSignatureSuffix);
}

std::string serialise(const SignedStatement& statement) {
  std::string text(kSignedKind);
  const SignedFacts& facts = statement.facts;
  if (!facts.model_id.empty()) text += fmt::format("model {}\n", facts.model_id);
  if (facts.version > 0) text += fmt::format("version {}\n", facts.version);
  if (facts.expires) text += fmt::format("expires {}\n", *facts.expires);
  for (const SignedFile& each : statement.files)
    text += fmt::format("file {} {} {}\n", trust::to_hex(each.digest), each.bytes, each.name);
  return text;
}

Result<SignatureFile> parse_signature_file(const std::string& text, const std::string& path) {
  SignatureFile made;
  std::string_view rest = text;
  bool is_sound = rest.starts_with(kSignedKind) && rest.ends_with('\n');
  if (is_sound) rest.remove_prefix(kSignedKind.size());
  while (is_sound && !rest.empty()) {
    std::string_view line = take_part(rest, '\n');
    if (!line.starts_with("signature ")) {
      is_sound = made.signatures.empty() && parse_statement_line(line, made.statement);
      continue;
    }
    line.remove_prefix(std::string_view("signature ").size());
    const std::optional<trust::KeySignature> signature = parse_signature_line(line);
    is_sound = signature && made.signatures.size() < trust::kMaxSignatures &&
               std::ranges::find(made.signatures, signature->key, &trust::KeySignature::key) ==
                   made.signatures.end();
    if (is_sound) made.signatures.push_back(*signature);
  }
  // One statement has one text: what was read must say the same.
  const auto is_before = [](const SignedFile& a, const SignedFile& b) { return a.name < b.name; };
  is_sound = is_sound && !made.signatures.empty() &&
             serialise(made.statement) + signature_lines(made.signatures) == text &&
             std::ranges::adjacent_find(made.statement.files, std::not_fn(is_before)) ==
                 made.statement.files.end();
  if (is_sound) return made;
  return Status(Code::kCorrupt,
                fmt::format("{}: it is damaged, or no signature file of sparcl sign", path));
}

Result<std::vector<SignedFile>> digest_files(const std::string& path, const FileWatch& watch) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<FoundFile> found, files_of(path));
  std::uint64_t total = 0, done = 0;
  for (const FoundFile& each : found) total += each.bytes;
  std::vector<SignedFile> digests;
  std::vector<std::byte> piece(kDigestPiece);
  for (const FoundFile& each : found) {
    SPARCL_ASSIGN_OR_RETURN(const FileReader file, FileReader::open(each.path));
    trust::Sha256 hash;
    for (std::uint64_t at = 0; at < file.byte_count();) {
      const std::size_t count =
          static_cast<std::size_t>(std::min<std::uint64_t>(kDigestPiece, file.byte_count() - at));
      SPARCL_RETURN_IF_ERROR(file.read(at, std::span(piece).first(count)));
      hash.update(std::span(piece).first(count));
      at += count;
      done += count;
      SPARCL_RETURN_IF_ERROR(watch.progress(std::min(done, total), total));
    }
    SPARCL_RETURN_IF_ERROR(file.check_unchanged());
    SPARCL_ASSIGN_OR_RETURN(const trust::Sha256::Digest digest, hash.finish());
    digests.push_back({each.name, file.byte_count(), digest});
  }
  return digests;
}

Result<SignatureFile> sign_files(const std::string& path, const trust::SigningKeys& keys,
                                 const std::string& signature_path, const SignedFacts& facts,
                                 bool adds, const FileWatch& watch) {
  if (facts.model_id.size() > kMaxFactBytes || has_control_characters(facts.model_id))
    return Status(Code::kInvalidArgument,
                  fmt::format("the model id '{}' has control characters, or more than {} bytes",
                              shown(facts.model_id), kMaxFactBytes));
  SPARCL_RETURN_IF_ERROR(check_outside(signature_path, path));
  SignatureFile made;
  made.statement.facts = facts;
  std::vector<SignedFile> before;
  if (adds) {
    SPARCL_ASSIGN_OR_RETURN(made, load_to_add(signature_path, facts));
    before = std::move(made.statement.files);
  }
  struct stat about;
  if (!adds && ::stat(signature_path.c_str(), &about) == 0)
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: it is there already: read it, then add a signature to it (--add, "
                    "options.adds), or remove it",
                    signature_path));
  SPARCL_ASSIGN_OR_RETURN(made.statement.files, digest_files(path, watch));
  if (adds && before != made.statement.files)
    return Status(Code::kMismatch,
                  fmt::format("{}: it is there already, of other files or other bytes: remove it "
                              "to sign these",
                              signature_path));
  const std::string text = serialise(made.statement);
  for (const trust::KeySignature& each : keys.sign(bytes_of_text(text))) {
    std::erase_if(made.signatures, [&](const auto& old) { return old.key == each.key; });
    made.signatures.push_back(each);
  }
  if (made.signatures.size() > trust::kMaxSignatures)
    return Status(Code::kInvalidArgument, fmt::format("{}: it would have more than {} signatures",
                                                      signature_path, trust::kMaxSignatures));
  SPARCL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(signature_path));
  SPARCL_RETURN_IF_ERROR(file.write(bytes_of_text(text + signature_lines(made.signatures))));
  SPARCL_RETURN_IF_ERROR(file.commit());
  return made;
}

// The signature comes first: no file is read because of a text without one.
Result<SignatureFile> check_signed_files(const std::string& path, const trust::TrustedKeys& trusted,
                                         const std::string& signature_path,
                                         const WantedFacts& wanted, const FileWatch& watch) {
  SPARCL_RETURN_IF_ERROR(trusted.check_threshold());
  SPARCL_ASSIGN_OR_RETURN(SignatureFile signed_by, load_signature_file(signature_path));
  const std::string text = serialise(signed_by.statement);
  SPARCL_RETURN_IF_ERROR(
      trusted.verify(bytes_of_text(text), signed_by.signatures).with_prefix(signature_path + ": "));
  std::erase_if(signed_by.signatures, [&](const auto& each) { return !trusted.trusts(each.key); });
  SPARCL_RETURN_IF_ERROR(check_facts(signed_by.statement.facts, wanted, signature_path));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<FoundFile> found, files_of(path));
  SPARCL_RETURN_IF_ERROR(compare_names(signed_by.statement.files, found, path));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<SignedFile> files, digest_files(path, watch));
  const auto [mine, theirs] = std::ranges::mismatch(files, signed_by.statement.files);
  if (mine == files.end() && theirs == signed_by.statement.files.end()) return signed_by;
  const std::string name = mine != files.end() ? mine->name : theirs->name;
  return Status(Code::kCorrupt,
                fmt::format("{}: the file '{}' has other bytes than those that were signed", path,
                            shown(name)));
}

}  // namespace sparcl::model
