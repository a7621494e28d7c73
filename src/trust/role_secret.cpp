#include "src/trust/role_secret.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "src/base/files/atomic_file.hpp"
#include "src/trust/key_file.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/new_key_file.hpp"

namespace sparcl::trust {
namespace {

constexpr std::size_t kMaxRoleFileBytes = 4096;  // heuristic: one line, and room for comments
constexpr std::string_view kRoleKind = "sparcl-join-";  // and the role's name
constexpr std::array<std::string_view, 3> kRoleNames = {"observe", "replicate", "publish"};

constexpr std::string_view kOfKey = "sparcl publisher key 1\n";
constexpr std::string_view kOfReplicas = "sparcl replicate 1\n";
constexpr std::string_view kOfObservers = "sparcl observe 1\n";
constexpr std::string_view kOfTls = "sparcl tls 1\n";
constexpr std::string_view kOfIdentity = "sparcl identity 1\n";

std::span<const std::byte> bytes_of_label(std::string_view label) {
  return std::as_bytes(std::span(label));
}

Status wrong_line(const std::string& path, std::string_view what) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {}", path, what));
}

std::optional<Role> role_of(std::string_view kind) {
  if (!kind.starts_with(kRoleKind)) return {};
  const auto found = std::ranges::find(kRoleNames, kind.substr(kRoleKind.size()));
  if (found == kRoleNames.end()) return {};
  return static_cast<Role>(found - kRoleNames.begin());
}

Result<KeyLine> only_line(const KeyFile& file, const std::string& path) {
  const std::vector<KeyLine> lines = file.lines();
  const auto is_join = [](const KeyLine& line) { return role_of(line.kind).has_value(); };
  if (std::ranges::none_of(lines, is_join))
    return wrong_line(
        path, fmt::format("it holds no secret of a role, a line '{}ROLE BASE64 ...': sparcl "
                          "secret makes them",
                          kRoleKind));
  if ((file.mode() & 077) != 0) {
    return wrong_line(
        path, fmt::format("its mode is {:04o}, so that others than its owner may read or change "
                          "this secret: run chmod 600 {}. Make new secrets if another user may "
                          "have read it",
                          file.mode(), path));
  }
  if (lines.size() != 1)
    return wrong_line(path, fmt::format("line {}: a file holds one secret", lines[1].number));
  return lines[0];
}

}  // namespace

std::string_view role_name(Role role) { return kRoleNames[static_cast<std::size_t>(role)]; }

Result<RoleSecret> RoleSecret::of_publisher(SecretBytes secret) {
  RoleSecret made(Role::kPublish, std::move(secret), {});
  SPARCL_ASSIGN_OR_RETURN(const SigningKey key, made.signing_key());
  made.publisher_key_ = key.public_key();
  return made;
}

Result<RoleSecret> RoleSecret::generate() {
  SPARCL_ASSIGN_OR_RETURN(SecretBytes secret, SecretBytes::random());
  return of_publisher(std::move(secret));
}

Result<RoleSecret> RoleSecret::load(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const KeyFile file, KeyFile::read(path, kMaxRoleFileBytes));
  SPARCL_ASSIGN_OR_RETURN(const KeyLine line, only_line(file, path));
  const Role role = *role_of(line.kind);
  SPARCL_ASSIGN_OR_RETURN(SecretBytes secret, SecretBytes::zeros());
  if (const std::optional<std::string> wrong = decode_key(line.key, secret.bytes()))
    return wrong_line(path, fmt::format("line {}: {}", line.number, *wrong));
  if (role == Role::kPublish) {
    if (line.comment.empty()) return of_publisher(std::move(secret));
    return wrong_line(path, fmt::format("line {}: it goes on after the secret", line.number));
  }
  PublicKey key;
  if (const std::optional<std::string> wrong = decode_key(line.comment, key))
    return wrong_line(path,
                      fmt::format("line {}: the publisher's public key: {}", line.number, *wrong));
  return RoleSecret(role, std::move(secret), key);
}

Result<RoleSecret> RoleSecret::for_role(Role role) const {
  if (role > role_) {
    return Status(Code::kUnauthorized,
                  fmt::format("the secret is of role {}, and role {} is needed", role_name(role_),
                              role_name(role)));
  }
  SPARCL_ASSIGN_OR_RETURN(SecretBytes secret, SecretBytes::zeros());
  std::ranges::copy(secret_.bytes(), secret.bytes().begin());
  for (Role at = role_; at > role; at = static_cast<Role>(static_cast<int>(at) - 1)) {
    const std::string_view label = at == Role::kPublish ? kOfReplicas : kOfObservers;
    SPARCL_ASSIGN_OR_RETURN(secret, SecretBytes::derive(secret.bytes(), bytes_of_label(label)));
  }
  return RoleSecret(role, std::move(secret), publisher_key_);
}

Result<SigningKey> RoleSecret::signing_key() const {
  if (role_ != Role::kPublish)
    return Status(
        Code::kUnauthorized,
        fmt::format("the secret is of role {}: only that of role publish signs", role_name(role_)));
  SPARCL_ASSIGN_OR_RETURN(const SecretBytes seed,
                          SecretBytes::derive(secret_.bytes(), bytes_of_label(kOfKey)));
  return SigningKey::from_seed(seed.bytes());
}

Result<SecretBytes> RoleSecret::tls_key() const {
  return SecretBytes::derive(secret_.bytes(), bytes_of_label(kOfTls));
}

Result<std::string> RoleSecret::tls_identity() const {
  SPARCL_ASSIGN_OR_RETURN(const KeyedHash hash,
                          keyed_hash(secret_.bytes(), bytes_of_label(kOfIdentity)));
  std::string identity = fmt::format("sparcl {} ", role_name(role_));
  for (std::size_t i = 0; i < 8; ++i)
    fmt::format_to(std::back_inserter(identity), "{:02x}", static_cast<unsigned>(hash[i]));
  return identity;
}

Status RoleSecret::save(const std::string& path) const {
  SPARCL_RETURN_IF_ERROR(check_key_path(path));
  std::vector<NewKeyFile> files;
  for (const Role role : {Role::kObserve, Role::kReplicate, Role::kPublish}) {
    SPARCL_ASSIGN_OR_RETURN(const RoleSecret secret, for_role(role));
    const bool is_own = role == Role::kPublish;
    std::string line = fmt::format("{}{} ", kRoleKind, role_name(role));
    line.reserve(line.size() + 2 * kKeyTextBytes + 2);  // no copy of the secret stays behind
    const std::size_t at = line.size();
    line.resize(at + kKeyTextBytes);
    encode_key(secret.secret_.bytes(), std::span<char, kKeyTextBytes>(&line[at], kKeyTextBytes));
    if (!is_own) {
      line += ' ';
      line.resize(line.size() + kKeyTextBytes);
      encode_key(publisher_key_,
                 std::span<char, kKeyTextBytes>(line.end() - kKeyTextBytes, line.end()));
    }
    line += '\n';
    Result<NewKeyFile> file =
        NewKeyFile::write(is_own ? path : fmt::format("{}.{}", path, role_name(role)), line, true);
    sodium_memzero(line.data(), line.size());
    if (!file.ok()) return file.status();
    files.push_back(std::move(*file));
  }
  // The publisher's file comes last: if it exists, however the process ended, all do.
  for (NewKeyFile& file : files) SPARCL_RETURN_IF_ERROR(file.appear());
  SPARCL_RETURN_IF_ERROR(sync_folder_of(path));
  for (NewKeyFile& file : files) file.keep();
  return {};
}

}  // namespace sparcl::trust
