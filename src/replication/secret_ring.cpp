#include "src/replication/secret_ring.hpp"

#include <algorithm>

namespace sparcl::replication {

Result<std::shared_ptr<SecretRing>> SecretRing::load(const std::string& path) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<trust::RoleSecret> secrets,
                          trust::RoleSecret::load_all(path, trust::kMaxSignatures));
  std::shared_ptr<SecretRing> made(new SecretRing());
  std::vector<trust::SigningKey> keys;
  for (const trust::RoleSecret& secret : secrets) {
    Result<trust::SigningKey> key = secret.signing_key();
    if (!key.ok()) return key.status().with_prefix(path + ": ");
    keys.push_back(std::move(*key));
    made->numbers_.push_back(++made->last_number_);
    for (const trust::Role role :
         {trust::Role::kObserve, trust::Role::kReplicate, trust::Role::kPublish}) {
      SPARCL_ASSIGN_OR_RETURN(trust::RoleSecret of_role, secret.for_role(role));
      SPARCL_ASSIGN_OR_RETURN(std::string identity, of_role.tls_identity());
      made->peers_.emplace(std::move(identity),
                           Peer{{made->last_number_, role}, std::move(of_role)});
    }
  }
  made->keys_ = std::make_shared<const trust::SigningKeys>(std::move(keys));
  return made;
}

std::optional<net::TlsEndpoint::KnownKey> SecretRing::find(std::string_view identity) const {
  std::optional<net::TlsEndpoint::KnownKey> found;
  const auto entry = peers_.find(identity);
  if (entry == peers_.end()) return found;
  Result<trust::SecretBytes> key = entry->second.secret.tls_key();
  if (key.ok()) found = net::TlsEndpoint::KnownKey{std::move(*key), entry->second.tag.value()};
  return found;
}

bool SecretRing::knows(PeerTag tag) const {
  return std::ranges::find(numbers_, tag.secret) != numbers_.end();
}

std::optional<SessionProof> SecretRing::prove(PeerTag tag,
                                              std::span<const std::byte> exporter) const {
  const auto number = std::ranges::find(numbers_, tag.secret);
  if (number == numbers_.end()) return std::nullopt;
  const trust::SigningKey& key = keys_->all()[static_cast<std::size_t>(number - numbers_.begin())];
  return SessionProof{key.public_key(), key.sign(signed_session(exporter))};
}

bool SecretRing::replace(SecretRing other) {
  // A name is of one secret: the same name means that the secret was there before.
  std::map<int, int> known;
  for (const auto& [identity, peer] : other.peers_) {
    if (const auto before = peers_.find(identity); before != peers_.end())
      known[peer.tag.secret] = before->second.tag.secret;
  }
  const auto renumber = [&](int& number) {
    const auto [entry, is_new] = known.try_emplace(number, 0);
    if (is_new) entry->second = ++last_number_;
    number = entry->second;
  };
  for (auto& [identity, peer] : other.peers_) renumber(peer.tag.secret);
  for (int& number : other.numbers_) renumber(number);
  const bool is_one_gone = std::ranges::any_of(numbers_, [&](int number) {
    return std::ranges::find(other.numbers_, number) == other.numbers_.end();
  });
  peers_ = std::move(other.peers_);
  numbers_ = std::move(other.numbers_);
  keys_ = std::move(other.keys_);
  return is_one_gone;
}

}  // namespace sparcl::replication
