#pragma once
// Detached signatures of files, so that a checkpoint or a delta that comes by any way is known to
// be its publisher's: docs/reference/signatures.md.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/model/file_watch.hpp"
#include "src/trust/sha256.hpp"
#include "src/trust/signing_keys.hpp"
#include "src/trust/trusted_keys.hpp"

namespace sparcl::model {

// Facts of the files beside their bytes. A field that is empty, 0 or nothing is not a fact.
struct SignedFacts {
  std::string model_id;
  std::uint64_t version = 0;
  std::optional<std::uint64_t> expires;  // seconds since 1970
  friend bool operator==(const SignedFacts&, const SignedFacts&) = default;
};

struct SignedFile {
  std::string name;  // relative to the folder, with '/' between folders
  std::uint64_t bytes = 0;
  trust::Sha256::Digest digest{};
  friend bool operator==(const SignedFile&, const SignedFile&) = default;
};

struct SignedStatement {
  SignedFacts facts;
  std::vector<SignedFile> files;  // by their names
};
std::string serialise(const SignedStatement& statement);  // the signed text

struct SignatureFile {
  SignedStatement statement;
  trust::Signatures signatures;
};
// For untrusted text: an error unless it is exactly what sign_files() writes.
Result<SignatureFile> parse_signature_file(const std::string& text, const std::string& path);

// Beside the file or folder: "policy.safetensors.sparcl-sig".
std::string signature_path_of(const std::string& path);

// All files of a folder and of the folders in it, or one file.
Result<std::vector<SignedFile>> digest_files(const std::string& path, const FileWatch& watch);

// Writes the signature file. adds: there is one of the same files, whose signatures are right. Its
// facts are taken, unless others are given, and the signatures are added to its own.
Result<SignatureFile> sign_files(const std::string& path, const trust::SigningKeys& keys,
                                 const std::string& signature_path, const SignedFacts& facts,
                                 bool adds, const FileWatch& watch);

struct WantedFacts {
  std::optional<std::string> model_id;
  std::uint64_t min_version = 0;
  std::uint64_t now = 0;  // seconds since 1970
};
// Answers with the signatures of trusted keys alone.
// Unauthorized: the signatures, or the facts, are not what is wanted. Corrupt: a file has other
// bytes, is missing, or is not among those that were signed.
Result<SignatureFile> check_signed_files(const std::string& path, const trust::TrustedKeys& trusted,
                                         const std::string& signature_path,
                                         const WantedFacts& wanted, const FileWatch& watch);

}  // namespace sparcl::model
