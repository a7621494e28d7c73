#pragma once
// A stream socket whose bytes are sent as they are, or by TLS 1.3 (tls_endpoint.hpp). It never
// blocks.

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "src/net/socket.hpp"
#include "src/net/tls_endpoint.hpp"

namespace sparcl::net {

class SecureSocket {
 public:
  SecureSocket();
  // flush() begins the handshake of a client, and read() alone ends that of either side: what comes
  // is never read by a call that sends. An endpoint of nullptr: in the clear.
  explicit SecureSocket(Socket socket, TlsEndpointRef endpoint = nullptr);
  SecureSocket(SecureSocket&&) noexcept;
  SecureSocket& operator=(SecureSocket&&) noexcept;
  ~SecureSocket();

  const Socket& socket() const { return socket_; }
  bool is_open() const { return socket_.is_open(); }
  int fd() const { return socket_.fd(); }
  void close();

  bool is_encrypted() const { return tls_ != nullptr; }
  bool is_ready() const;  // in the clear, or the handshake is over
  // By the other side's key or certificate, once the handshake is over.
  std::optional<int> peer_tag() const;
  // 32 bytes that only the two ends of this connection know (RFC 8446, section 7.5). They are the
  // same on both ends once the handshake is over.
  using Exporter = std::array<std::byte, 32>;
  Result<Exporter> exporter() const;

  Moved read(std::span<std::byte> out);
  // Takes a part of the pieces, or nothing.
  Moved write(std::span<const iovec> pieces);
  // Sends what is encrypted already, and what a handshake has to say.
  Moved flush();
  // poll() is to wait until the socket can be written.
  bool wants_to_write() const;
  // Bytes have come that poll() does not tell of: read() has more.
  bool has_unread() const;
  // Encrypted bytes that the system has not taken yet.
  std::size_t waiting_bytes() const;
  // Bytes that have come, encrypted or not.
  std::uint64_t bytes_received() const { return bytes_received_; }
  std::size_t own_bytes() const;  // of memory
  // Why a handshake or a record failed; empty: it did not.
  const std::string& failure() const { return failure_; }
  // The failure is that one side refuses the other's certificate, or that there is none.
  bool is_refused() const { return is_refused_; }

 private:
  struct Tls;
  struct Streams;

  Moved handshake(bool may_read);
  Moved fail(const char* step);
  Moved fill();
  Moved send_encrypted();
  Moved send_or_hear_why();

  Socket socket_;
  std::unique_ptr<Tls> tls_;
  std::uint64_t bytes_received_ = 0;
  std::string failure_;
  bool is_refused_ = false;
};

}  // namespace sparcl::net
