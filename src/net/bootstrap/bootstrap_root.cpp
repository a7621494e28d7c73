#include "src/net/bootstrap/bootstrap_root.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "src/base/log.hpp"
#include "src/net/network_interfaces.hpp"
#include "src/trust/keyed_hash.hpp"

namespace sparcl::net {
namespace {

constexpr int kBacklog = 4096;  // the kernel cuts it to net.core.somaxconn
constexpr int kTries = 16;      // for one port that is free at all addresses
constexpr std::size_t kMaxLingering =
    4;  // ids that were used, and still answer late ranks: a thread and some descriptors each

struct Listeners {
  std::vector<Socket> sockets;
  std::vector<NetAddress> addresses;
  std::uint16_t port = 0;
};

// The first address chooses the port. False: another address has it taken.
Result<Listeners> listen_at_one_port(std::span<const NetAddress> addresses) {
  Listeners made;
  Status last(Code::kInvalidArgument, "there is no address to listen at");
  for (NetAddress address : addresses) {
    address.port = made.port;
    Result<Socket> socket = listen_at(address, kBacklog);
    if (!socket.ok()) {  // an address may vanish, or not be ready yet
      last = socket.status();
      continue;
    }
    if (made.port == 0) {
      SPARCL_ASSIGN_OR_RETURN(const NetAddress own, local_address(*socket));
      made.port = address.port = own.port;
    }
    made.sockets.push_back(std::move(*socket));
    made.addresses.push_back(address);
  }
  if (made.sockets.empty()) return last.with_prefix("unique id: ");
  return made;
}

// Takes the try with the most addresses.
Result<Listeners> listen_at_all(std::span<const NetAddress> addresses) {
  Result<Listeners> best = listen_at_one_port(addresses);
  for (int i = 1; i < kTries && best.ok() && best->sockets.size() < addresses.size(); ++i) {
    Result<Listeners> next = listen_at_one_port(addresses);
    if (next.ok() && next->sockets.size() > best->sockets.size()) best = std::move(next);
  }
  return best;
}

}  // namespace

Result<std::unique_ptr<BootstrapRoot>> BootstrapRoot::start(std::span<const NetAddress> addresses,
                                                            const RootOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(Listeners listeners,
                          listen_at_all(addresses.first(addresses_that_fit(addresses))));
  std::unique_ptr<BootstrapRoot> root(new BootstrapRoot);
  root->id_.port = listeners.port;
  root->id_.addresses = listeners.addresses;
  SPARCL_RETURN_IF_ERROR(trust::fill_random(root->id_.secret));
  root->server_ =
      std::make_unique<RootServer>(root->id_.secret, std::move(listeners.sockets), options);
  SPARCL_RETURN_IF_ERROR(root->thread_.start(
      "the unique id", [server = root->server_.get()](const auto& stop) { server->run(stop); }));
  log_debug("bootstrap: listening at {} and {} more", to_text(root->id_.addresses.front()),
            root->id_.addresses.size() - 1);
  return root;
}

BootstrapRoot::~BootstrapRoot() {
  if (!thread_.stop()) (void)server_.release();
}

Result<std::array<std::byte, kUniqueIdBytes>> make_unique_id() {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<NetAddress> addresses, own_addresses());
  // The first use of libcrypto registers its clean-up at exit: it must run after that of `roots`,
  // whose threads use it.
  if (const Result<trust::KeyedHash> first_use = trust::keyed_hash({}, {}); !first_use.ok())
    return first_use.status();
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<BootstrapRoot> root, BootstrapRoot::start(addresses));
  const std::array<std::byte, kUniqueIdBytes> id = encode_unique_id((root)->id());

  static std::mutex mutex;
  static std::vector<std::unique_ptr<BootstrapRoot>> roots;  // the oldest first
  const std::lock_guard lock(mutex);
  const auto is_over = [](const auto& other) { return other->is_over(); };
  auto surplus = std::count_if(roots.begin(), roots.end(), is_over) -
                 static_cast<std::ptrdiff_t>(kMaxLingering);
  std::erase_if(roots, [&](const auto& other) { return is_over(other) && surplus-- > 0; });
  roots.push_back(std::move(root));
  return id;
}

}  // namespace sparcl::net
