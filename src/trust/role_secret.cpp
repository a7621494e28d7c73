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
#include "src/trust/signing_keys.hpp"

namespace sparcl::trust {
namespace {

constexpr std::size_t kMaxRoleFileBytes = 4096;  // heuristic: some lines, and room for comments
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

// The lines of secrets, of a file that has nothing else.
Result<std::vector<KeyLine>> lines_of_secrets(const KeyFile& file, const std::string& path) {
  std::vector<KeyLine> lines = file.lines();
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
  // A publisher knows several secrets while one is replaced; others have one.
  for (const KeyLine& line : lines) {
    const bool is_only = lines.size() == 1;
    const bool is_publishers = line.kind == std::string(kRoleKind) + "publish";
    if (!is_join(line) || (!is_only && !is_publishers))
      return wrong_line(path, fmt::format("line {}: a file holds one secret, or several of role "
                                          "publish",
                                          line.number));
  }
  return lines;
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
  SPARCL_ASSIGN_OR_RETURN(std::vector<RoleSecret> secrets, load_all(path, kMaxSignatures));
  return std::move(secrets.front());
}

Result<std::vector<RoleSecret>> RoleSecret::load_all(const std::string& path,
                                                     std::size_t max_secrets) {
  SPARCL_ASSIGN_OR_RETURN(const KeyFile file, KeyFile::read(path, kMaxRoleFileBytes));
  SPARCL_ASSIGN_OR_RETURN(const std::vector<KeyLine> lines, lines_of_secrets(file, path));
  if (lines.size() > max_secrets)
    return wrong_line(path, fmt::format("line {}: it holds more than {} secrets",
                                        lines[max_secrets].number, max_secrets));
  std::vector<RoleSecret> secrets;
  for (const KeyLine& line : lines) {
    SPARCL_ASSIGN_OR_RETURN(RoleSecret secret, of_line(line, path));
    const auto is_same = [&](const RoleSecret& each) {
      return each.publisher_key() == secret.publisher_key();
    };
    if (std::ranges::any_of(secrets, is_same))
      return wrong_line(path, fmt::format("line {}: this secret stands there twice", line.number));
    secrets.push_back(std::move(secret));
  }
  return secrets;
}

Result<RoleSecret> RoleSecret::of_line(const KeyLine& line, const std::string& path) {
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

void RoleSecret::add_line(std::string& text) const {
  const auto add_key = [&](std::span<const std::byte, kKeyBytes> key) {
    text.resize(text.size() + kKeyTextBytes);
    encode_key(key, std::span<char, kKeyTextBytes>(text.end() - kKeyTextBytes, text.end()));
  };
  text += fmt::format("{}{} ", kRoleKind, role_name(role_));
  add_key(secret_.bytes());
  if (role_ != Role::kPublish) {
    text += ' ';
    add_key(publisher_key_);
  }
  text += '\n';
}

// The file of a role, with the lines of these secrets.
Result<NewKeyFile> RoleSecret::new_file(const std::string& path, Role role,
                                        std::span<const RoleSecret> secrets) {
  std::string text;
  text.reserve(secrets.size() * (2 * kKeyTextBytes + 32));  // no copy of a secret stays behind
  for (const RoleSecret& secret : secrets) {
    SPARCL_ASSIGN_OR_RETURN(const RoleSecret of_role, secret.for_role(role));
    of_role.add_line(text);
  }
  const bool is_own = role == Role::kPublish;
  Result<NewKeyFile> file =
      NewKeyFile::write(is_own ? path : fmt::format("{}.{}", path, role_name(role)), text, true);
  sodium_memzero(text.data(), text.size());
  return file;
}

Status RoleSecret::save(const std::string& path) const {
  SPARCL_RETURN_IF_ERROR(check_key_path(path));
  std::vector<NewKeyFile> files;
  for (const Role role : {Role::kObserve, Role::kReplicate, Role::kPublish}) {
    SPARCL_ASSIGN_OR_RETURN(NewKeyFile file, new_file(path, role, {this, 1}));
    files.push_back(std::move(file));
  }
  // The publisher's file comes last: if it exists, however the process ended, all do.
  for (NewKeyFile& file : files) SPARCL_RETURN_IF_ERROR(file.appear());
  SPARCL_RETURN_IF_ERROR(sync_folder_of(path));
  for (NewKeyFile& file : files) file.keep();
  return {};
}

// The publisher's file comes first: it accepts the old secrets, and others could not use the new
// one before.
Result<std::vector<RoleSecret>> RoleSecret::replace(const std::string& given,
                                                    const Change& change) {
  const std::string path = behind_links(given);
  SPARCL_ASSIGN_OR_RETURN(const FileLock lock, lock_folder_of(path));
  SPARCL_ASSIGN_OR_RETURN(std::vector<RoleSecret> before, load_all(path, kMaxSignatures));
  SPARCL_ASSIGN_OR_RETURN(std::vector<RoleSecret> secrets, change(std::move(before)));
  std::vector<NewKeyFile> files;
  for (const Role role : {Role::kPublish, Role::kReplicate, Role::kObserve}) {
    const std::size_t count = role == Role::kPublish ? secrets.size() : 1;
    SPARCL_ASSIGN_OR_RETURN(NewKeyFile file, new_file(path, role, {secrets.data(), count}));
    files.push_back(std::move(file));
  }
  for (NewKeyFile& file : files) SPARCL_RETURN_IF_ERROR(file.replace());
  SPARCL_RETURN_IF_ERROR(sync_folder_of(path));
  return secrets;
}

}  // namespace sparcl::trust
