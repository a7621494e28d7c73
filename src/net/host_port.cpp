#include "src/net/host_port.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

namespace sparcl::net {

Result<HostPort> parse_host_port(std::string_view text) {
  const auto bad = [&](const char* why) {
    return Status(Code::kInvalidArgument, fmt::format("'{}' is no HOST:PORT: {}", text, why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("there is no colon before a port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  HostPort where;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), where.port);
  if (port.empty() || error != std::errc() || end != port.data() + port.size())
    return bad("the port is no number up to 65535");
  const bool in_brackets = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  if (!in_brackets && host.find(':') != std::string_view::npos)
    return bad("an IPv6 address goes in brackets, [fd00::7]:4711");
  if (host.size() > 255) return bad("the host's name is too long");
  where.host = host;
  return where;
}

namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// error: of getaddrinfo().
AddressList find_addresses(const std::string& host, int flags, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  return AddressList(error == 0 ? found : nullptr, ::freeaddrinfo);
}

}  // namespace

Result<std::vector<HostPort>> parse_host_ports(std::string_view text) {
  std::vector<HostPort> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    SPARCL_ASSIGN_OR_RETURN(HostPort one, parse_host_port(text.substr(at, comma - at)));
    all.push_back(std::move(one));
    at = comma + 1;
  }
  return all;
}

std::optional<NetAddress> numeric_address(const HostPort& where) {
  if (where.host.empty()) return loopback_address(where.port);
  int error = 0;
  const AddressList list = find_addresses(where.host, AI_NUMERICHOST, error);
  std::optional<NetAddress> address =
      list != nullptr ? from_socket_address(list->ai_addr) : std::nullopt;
  if (address) address->port = where.port;
  return address;
}

Result<std::vector<NetAddress>> resolve(const HostPort& where) {
  if (const std::optional<NetAddress> numeric = numeric_address(where))
    return std::vector<NetAddress>{*numeric};
  int error = 0;
  const AddressList list = find_addresses(where.host, 0, error);
  if (error != 0) {
    return Status(Code::kSystemError, fmt::format("no address for the host '{}': {}", where.host,
                                                  ::gai_strerror(error)));
  }
  std::vector<NetAddress> addresses;
  for (const addrinfo* each = list.get(); each != nullptr; each = each->ai_next) {
    std::optional<NetAddress> address = from_socket_address(each->ai_addr);
    if (!address) continue;
    address->port = where.port;
    if (std::find(addresses.begin(), addresses.end(), *address) == addresses.end())
      addresses.push_back(*address);
  }
  if (!addresses.empty()) return addresses;
  return Status(Code::kSystemError,
                fmt::format("the host '{}' has no IPv4 or IPv6 address", where.host));
}

}  // namespace sparcl::net
