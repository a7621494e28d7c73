#include "src/replication/relay_ticket.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/net/socket.hpp"
#include "src/trust/keyed_hash.hpp"
#include "src/trust/role_secret.hpp"

namespace sparcl::replication {
namespace {

constexpr std::string_view kTicketPrefix = "sparcl ticket ";
constexpr std::string_view kTicketLabel = "sparcl ticket 1\n";

using Nonce = decltype(RelayTicket::nonce);

Result<trust::SecretBytes> key_of(const RelayKey& parent, const Nonce& nonce) {
  std::vector<std::byte> label;
  std::ranges::copy(std::as_bytes(std::span(kTicketLabel)), std::back_inserter(label));
  std::ranges::copy(nonce, std::back_inserter(label));
  return trust::SecretBytes::derive(parent, label);
}

// The tickets that were used, so that none is used again later.
class UsedTickets {
 public:
  bool may_be_used(const Nonce& nonce) {
    const double now = net::monotonic_seconds();
    const auto known = std::ranges::find(used_, nonce, &Used::nonce);
    if (known != used_.end()) return now - known->at <= kTicketSeconds;
    if (used_.size() >= kMaxUsed) used_.pop_front();
    used_.push_back({nonce, now});
    return true;
  }

 private:
  static constexpr double kTicketSeconds = 10;
  static constexpr std::size_t kMaxUsed = 1024;  // both heuristic
  struct Used {
    Nonce nonce;
    double at;
  };
  std::deque<Used> used_;
};

}  // namespace

Result<RelayKey> new_relay_key() {
  RelayKey key;
  SPARCL_RETURN_IF_ERROR(trust::fill_random(key));
  return key;
}

Result<RelayTicket> new_ticket(const RelayKey& parent) {
  RelayTicket ticket;
  SPARCL_RETURN_IF_ERROR(trust::fill_random(ticket.nonce));
  SPARCL_ASSIGN_OR_RETURN(const trust::SecretBytes key, key_of(parent, ticket.nonce));
  std::ranges::copy(key.bytes(), ticket.key.begin());
  return ticket;
}

Result<net::TlsEndpointRef> ticket_client(const RelayTicket& ticket) {
  SPARCL_ASSIGN_OR_RETURN(trust::SecretBytes key, trust::SecretBytes::zeros());
  std::ranges::copy(ticket.key, key.bytes().begin());
  return net::TlsEndpoint::client(
      std::string(kTicketPrefix)
          .append(reinterpret_cast<const char*>(ticket.nonce.data()), ticket.nonce.size()),
      std::move(key));
}

Result<net::TlsEndpointRef> ticket_server(std::shared_ptr<const std::optional<RelayKey>> own) {
  const auto find_key =
      [own, used = std::make_shared<UsedTickets>()](
          std::string_view identity) -> std::optional<net::TlsEndpoint::KnownKey> {
    Nonce nonce;
    if (!own->has_value() || !identity.starts_with(kTicketPrefix)) return {};
    identity.remove_prefix(kTicketPrefix.size());
    if (identity.size() != nonce.size()) return {};
    std::memcpy(nonce.data(), identity.data(), nonce.size());
    if (!used->may_be_used(nonce)) return {};
    Result<trust::SecretBytes> key = key_of(**own, nonce);
    if (!key.ok()) return {};
    return net::TlsEndpoint::KnownKey{std::move(*key), static_cast<int>(trust::Role::kReplicate)};
  };
  return net::TlsEndpoint::server(find_key);
}

}  // namespace sparcl::replication
