#include "src/net/secure_socket.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace sparcl::net {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;     // of a socket; heuristic
constexpr std::size_t kMaxEncrypted = std::size_t{64} << 10;   // that wait to be sent; heuristic
constexpr std::size_t kMaxRecord = std::size_t{17} << 10;      // encrypted
constexpr std::size_t kTlsStateBytes = std::size_t{48} << 10;  // OpenSSL's own, about
// A new key long before the limit for AES-GCM of 2^24.5 records (RFC 8446, section 5.5).
constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;
constexpr std::size_t kMaxHandshakeBytes = std::size_t{16} << 10;  // of the peer; ours take 1 KiB
constexpr int kMaxEmptyRecords = 32;  // in a row: a peer changes its key once in 2^22 records
constexpr char kExporterLabel[] = "EXPORTER-sparcl-session";

Moved moved(std::size_t bytes) { return {Moved::Kind::kBytes, bytes, 0}; }
Moved would_block() { return {Moved::Kind::kWouldBlock, 0, 0}; }

Moved send_pieces(const Socket& socket, std::span<const iovec> pieces) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t sent = ::sendmsg(socket.fd(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return moved(static_cast<std::size_t>(sent));
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return would_block();
    return {Moved::Kind::kClosed, 0, errno};
  }
}

}  // namespace

// The encrypted bytes of one connection, between OpenSSL and the socket.
struct SecureSocket::Streams {
  std::vector<std::byte> in, out;
  std::size_t read = 0, sent = 0;  // bytes of each that are done

  static Streams& of(BIO* bio) { return *static_cast<Streams*>(BIO_get_data(bio)); }

  static int read_bio(BIO* bio, char* out, int count) {
    Streams& own = of(bio);
    BIO_clear_retry_flags(bio);
    const std::size_t bytes = std::min(static_cast<std::size_t>(count), own.in.size() - own.read);
    if (bytes == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(out, own.in.data() + own.read, bytes);
    own.read += bytes;
    return static_cast<int>(bytes);
  }

  static int write_bio(BIO* bio, const char* data, int count) try {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    of(bio).out.insert(of(bio).out.end(), bytes, bytes + count);
    return count;
  } catch (const std::bad_alloc&) {
    return -1;
  }

  static long control_bio(BIO*, int command, long, void*) {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
  }

  static BIO_METHOD* make_method() {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sparcl");
    if (method == nullptr) return nullptr;
    BIO_meth_set_read(method, read_bio);
    BIO_meth_set_write(method, write_bio);
    BIO_meth_set_ctrl(method, control_bio);
    return method;
  }
  // One per process: connections that are open at its end may still use it.
  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = make_method();
    return made;
  }
};

struct SecureSocket::Tls {
  TlsEndpointRef endpoint;
  Streams streams;
  SSL* ssl = nullptr;
  std::uint64_t records = 0;        // written with the present key
  std::size_t handshake_bytes = 0;  // that have come
  int empty_records = 0;            // that have come since the last data

  Tls() = default;
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls() { SSL_free(ssl); }

  // False: OpenSSL has no memory.
  bool begin() {
    ssl = SSL_new(endpoint->context());
    if (ssl == nullptr || Streams::method() == nullptr) return false;
    BIO* bio = BIO_new(Streams::method());
    if (bio == nullptr) return false;
    BIO_set_data(bio, &streams);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    endpoint->is_server() ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
    return true;
  }
};

SecureSocket::SecureSocket() = default;

SecureSocket::SecureSocket(Socket socket, TlsEndpointRef endpoint) : socket_(std::move(socket)) {
  if (endpoint == nullptr) return;
  tls_ = std::make_unique<Tls>();
  tls_->endpoint = std::move(endpoint);
  if (!tls_->begin()) throw std::bad_alloc();
}

SecureSocket::SecureSocket(SecureSocket&&) noexcept = default;
SecureSocket& SecureSocket::operator=(SecureSocket&&) noexcept = default;
SecureSocket::~SecureSocket() = default;

void SecureSocket::close() {
  socket_.close();
  tls_ = nullptr;
}

bool SecureSocket::is_ready() const {
  return tls_ == nullptr || SSL_is_init_finished(tls_->ssl) == 1;
}

std::optional<int> SecureSocket::peer_tag() const {
  if (tls_ == nullptr || !is_ready()) return {};
  const auto tag = reinterpret_cast<std::intptr_t>(SSL_get_app_data(tls_->ssl));
  return tag == 0 ? std::optional<int>() : static_cast<int>(tag - 1);
}

Result<SecureSocket::Exporter> SecureSocket::exporter() const {
  Exporter made;
  if (tls_ != nullptr && is_ready() &&
      SSL_export_keying_material(tls_->ssl, reinterpret_cast<unsigned char*>(made.data()),
                                 made.size(), kExporterLabel, sizeof kExporterLabel - 1, nullptr, 0,
                                 0) == 1)
    return made;
  return Status(Code::kSystemError, "the connection gives no exporter (RFC 8446, section 7.5)");
}

Moved SecureSocket::fail(const char* step) {
  if (failure_.empty()) failure_ = fmt::format("{}: {}", step, tls_error_text());
  return {Moved::Kind::kClosed, 0, EPROTO};
}

// Reads encrypted bytes; kBytes: some came.
Moved SecureSocket::fill() {
  Streams& streams = tls_->streams;
  streams.in.resize(kReadAtOnce);
  streams.read = 0;
  const Moved step = read_some(socket_, streams.in);
  streams.in.resize(step.kind == Moved::Kind::kBytes ? step.bytes : 0);
  if (streams.in.empty())
    streams.in = std::vector<std::byte>();  // an idle connection keeps no memory for them
  return step;
}

Moved SecureSocket::send_encrypted() {
  Streams& streams = tls_->streams;
  while (streams.sent < streams.out.size()) {
    const iovec piece{streams.out.data() + streams.sent, streams.out.size() - streams.sent};
    const Moved step = send_pieces(socket_, std::span(&piece, 1));
    if (step.kind != Moved::Kind::kBytes) return step;
    streams.sent += step.bytes;
  }
  streams.sent = 0;
  streams.out = std::vector<std::byte>();  // an idle connection keeps no memory for them
  return moved(0);
}

// kBytes: it is over.
Moved SecureSocket::handshake(bool may_read) {
  while (!is_ready()) {
    ERR_clear_error();
    const int returned = SSL_do_handshake(tls_->ssl);
    if (returned != 1) {
      // Alerts are not sent: a peer without a key gets nothing but a closed connection.
      if (SSL_get_error(tls_->ssl, returned) != SSL_ERROR_WANT_READ)
        return fail("the TLS handshake failed");
      if (const Moved sent = send_encrypted(); sent.kind == Moved::Kind::kClosed) return sent;
      if (!may_read) return would_block();
      const Moved step = fill();
      if (step.kind != Moved::Kind::kBytes) return step;
      tls_->handshake_bytes += step.bytes;
      if (tls_->handshake_bytes > kMaxHandshakeBytes) return fail("the TLS handshake is too long");
      continue;
    }
    // Both ends must have proven a key.
    if (SSL_session_reused(tls_->ssl) != 1) return fail("the TLS handshake used no key");
    if (const Moved sent = send_encrypted(); sent.kind == Moved::Kind::kClosed) return sent;
  }
  return moved(0);
}

// One look at the socket at most: a peer that sends records without data does not hold the others
// up.
Moved SecureSocket::read(std::span<std::byte> out) {
  if (tls_ == nullptr) return read_some(socket_, out);
  if (const Moved step = handshake(true); step.kind != Moved::Kind::kBytes) return step;
  for (bool has_looked = false;;) {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int returned = SSL_read_ex(tls_->ssl, out.data(), out.size(), &bytes);
    if (returned == 1) {
      tls_->empty_records = 0;
      return moved(bytes);
    }
    const int error = SSL_get_error(tls_->ssl, returned);
    if (error == SSL_ERROR_ZERO_RETURN) return {Moved::Kind::kClosed, 0, 0};
    if (error != SSL_ERROR_WANT_READ) return fail("a TLS record");
    if (tls_->streams.read < tls_->streams.in.size()) {
      if (++tls_->empty_records > kMaxEmptyRecords) return fail("TLS records without data");
      continue;
    }
    if (std::exchange(has_looked, true)) return would_block();
    if (const Moved step = fill(); step.kind != Moved::Kind::kBytes) return step;
  }
}

Moved SecureSocket::write(std::span<const iovec> pieces) {
  if (tls_ == nullptr) return send_pieces(socket_, pieces);
  if (const Moved step = handshake(false); step.kind != Moved::Kind::kBytes) return step;
  if (const Moved step = send_encrypted(); step.kind != Moved::Kind::kBytes) return step;
  tls_->streams.out.reserve(kMaxEncrypted + kMaxRecord);
  std::size_t taken = 0;
  for (const iovec& piece : pieces) {
    std::size_t at = 0;
    while (at < piece.iov_len && tls_->streams.out.size() < kMaxEncrypted) {
      ERR_clear_error();
      std::size_t bytes = 0;
      if (++tls_->records % kRecordsPerKey == 0)
        SSL_key_update(tls_->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
      const int returned = SSL_write_ex(tls_->ssl, static_cast<const char*>(piece.iov_base) + at,
                                        piece.iov_len - at, &bytes);
      if (returned != 1) return fail("a TLS record");  // write_bio() never blocks
      at += bytes;
      taken += bytes;
    }
  }
  if (const Moved step = send_encrypted(); step.kind == Moved::Kind::kClosed) return step;
  return moved(taken);
}

Moved SecureSocket::flush() {
  if (tls_ == nullptr) return moved(0);
  if (const Moved step = handshake(false); step.kind != Moved::Kind::kBytes) return step;
  return send_encrypted();
}

bool SecureSocket::wants_to_write() const {
  return tls_ != nullptr && tls_->streams.sent < tls_->streams.out.size();
}

bool SecureSocket::has_unread() const {
  return tls_ != nullptr && is_ready() &&
         (SSL_has_pending(tls_->ssl) == 1 || tls_->streams.read < tls_->streams.in.size());
}

std::size_t SecureSocket::unacknowledged_bytes() const {
  const std::size_t encrypted = tls_ != nullptr ? tls_->streams.out.size() - tls_->streams.sent : 0;
  return net::unacknowledged_bytes(socket_) + encrypted;
}

std::size_t SecureSocket::own_bytes() const {
  if (tls_ == nullptr) return 0;
  return kTlsStateBytes + tls_->streams.in.capacity() + tls_->streams.out.capacity();
}

}  // namespace sparcl::net
