#pragma once
// The port of the gateway: streams of gRPC, and a session for each.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tools/gateway/gateway_session.hpp"

namespace sparcl::gateway {

struct ServerOptions {
  std::string listen = "127.0.0.1:0";
  std::string certificates_path;  // mutual TLS; "": in the clear
  std::string model_id;
  std::size_t max_sessions = 256;
  double send_s = 30;  // in which a client has to take a message
  SessionLimits session;
};

// Since the start, but for `sessions`.
struct ServerCounts {
  std::atomic<std::uint64_t> sessions{0}, opened{0}, refused{0}, dropped{0};
  std::atomic<std::uint64_t> anchors{0}, steps{0}, nacks{0}, bytes{0};
};

class GatewayServer {
 public:
  // The shelf outlives it. tell: of each client that is refused or dropped, in one line; called by
  // any thread. SystemError: the port is not available. Other errors are those of the certificates.
  static Result<std::unique_ptr<GatewayServer>> start(const ServerOptions& options,
                                                      VersionShelf& shelf,
                                                      std::function<void(const std::string&)> tell);
  // Ends all streams (UNAVAILABLE).
  ~GatewayServer();
  GatewayServer(const GatewayServer&) = delete;
  GatewayServer& operator=(const GatewayServer&) = delete;

  const std::string& address() const { return address_; }
  const ServerCounts& counts() const;

 private:
  struct Impl;
  explicit GatewayServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace sparcl::gateway
