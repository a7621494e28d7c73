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
#include <utility>

#include "src/net/certificate_text.hpp"

namespace sparcl::net {
namespace {

constexpr std::size_t kMaxEncrypted = std::size_t{64} << 10;  // that wait to be sent; heuristic
constexpr std::size_t kMaxRecord = std::size_t{17} << 10;     // encrypted
// OpenSSL's own: 14 KiB, measured, and a record of which a part has come.
constexpr std::size_t kTlsStateBytes = std::size_t{32} << 10;
// A new key long before the limit for AES-GCM of 2^24.5 records (RFC 8446, section 5.5).
constexpr std::uint64_t kRecordsPerKey = std::uint64_t{1} << 22;
constexpr std::size_t kMaxHandshakeBytes = std::size_t{16} << 10;  // of the peer; ours take 1 KiB
constexpr std::size_t kMaxHandshakeWithCertificates = std::size_t{64} << 10;
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

// Bytes that wait. Without any it keeps no memory, because most connections are idle: the
// connections of a thread share a spare piece.
class WaitingBytes {
 public:
  static constexpr std::size_t kCapacity = kMaxEncrypted + kMaxRecord;

  std::span<const std::byte> bytes() const { return {memory_.get() + begin_, end_ - begin_}; }
  bool is_empty() const { return begin_ == end_; }
  std::size_t capacity() const { return memory_ != nullptr ? kCapacity : 0; }
  void take(std::size_t count) {
    begin_ += count;
    if (is_empty()) release();
  }
  // The room after the bytes, for add().
  std::span<std::byte> room() {
    if (memory_ == nullptr) memory_ = std::exchange(spare(), nullptr);
    if (memory_ == nullptr) memory_ = std::make_unique_for_overwrite<std::byte[]>(kCapacity);
    return {memory_.get() + end_, kCapacity - end_};
  }
  void add(std::size_t count) { end_ += count; }
  void release() {
    if (memory_ != nullptr) spare() = std::move(memory_);
    begin_ = end_ = 0;
  }

 private:
  static std::unique_ptr<std::byte[]>& spare() {
    static thread_local std::unique_ptr<std::byte[]> kept;
    return kept;
  }

  std::unique_ptr<std::byte[]> memory_;
  std::size_t begin_ = 0, end_ = 0;
};

}  // namespace

// The encrypted bytes of one connection, between OpenSSL and the socket.
struct SecureSocket::Streams {
  WaitingBytes in, out;

  static Streams& of(BIO* bio) { return *static_cast<Streams*>(BIO_get_data(bio)); }

  static int read_bio(BIO* bio, char* out, int count) {
    WaitingBytes& in = of(bio).in;
    BIO_clear_retry_flags(bio);
    const std::size_t bytes = std::min(static_cast<std::size_t>(count), in.bytes().size());
    if (bytes == 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    std::memcpy(out, in.bytes().data(), bytes);
    in.take(bytes);
    return static_cast<int>(bytes);
  }

  // The room suffices for records, and for all that a handshake or a change of keys says.
  static int write_bio(BIO* bio, const char* data, int count) try {
    WaitingBytes& out = of(bio).out;
    const std::span<std::byte> room = out.room();
    if (room.size() < static_cast<std::size_t>(count)) return -1;
    std::memcpy(room.data(), data, static_cast<std::size_t>(count));
    out.add(static_cast<std::size_t>(count));
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
  TlsPeer peer;
  std::uint64_t records = 0;        // written with the present key
  std::size_t handshake_bytes = 0;  // that have come
  int empty_records = 0;            // that have come since the last data
  bool has_spoken = false;          // bytes were sent

  Tls() = default;
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  ~Tls() { SSL_free(ssl); }

  // False: OpenSSL has no memory.
  bool begin() {
    ssl = SSL_new(endpoint->context().get());  // which keeps the context
    if (ssl == nullptr || Streams::method() == nullptr) return false;
    SSL_set_app_data(ssl, &peer);
    BIO* bio = BIO_new(Streams::method());
    if (bio == nullptr) return false;
    BIO_set_data(bio, &streams);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    endpoint->is_server() ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
    return true;
  }

  std::size_t max_handshake_bytes() const {
    return endpoint->has_certificates() ? kMaxHandshakeWithCertificates : kMaxHandshakeBytes;
  }
  // Both ends have proven a key, or shown certificates that are accepted.
  bool is_proven() const {
    if (endpoint->has_certificates())
      return peer.tag.has_value() && SSL_get_verify_result(ssl) == X509_V_OK;
    return SSL_session_reused(ssl) == 1;
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
  return tls_->peer.tag;
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
  if (failure_.empty()) {
    failure_ = tls_->endpoint->certificate_fault(tls_->peer);
    is_refused_ = !failure_.empty();
    if (!is_refused_) failure_ = fmt::format("{}: {}", step, ssl_error_text());
  }
  ERR_clear_error();
  return {Moved::Kind::kClosed, 0, EPROTO};
}

// Reads encrypted bytes, if none wait; kBytes: some came.
Moved SecureSocket::fill() {
  WaitingBytes& in = tls_->streams.in;
  const Moved step = read_some(socket_, in.room());
  if (step.kind == Moved::Kind::kBytes) {
    in.add(step.bytes);
    bytes_received_ += step.bytes;
  }
  if (in.is_empty()) in.release();
  return step;
}

Moved SecureSocket::send_encrypted() {
  WaitingBytes& out = tls_->streams.out;
  while (!out.is_empty()) {
    const iovec piece{const_cast<std::byte*>(out.bytes().data()), out.bytes().size()};
    const Moved step = send_pieces(socket_, std::span(&piece, 1));
    if (step.kind != Moved::Kind::kBytes) return step;
    out.take(step.bytes);
    tls_->has_spoken = true;
  }
  return moved(0);
}

// If the other side has ended the connection, an alert with the reason may have come before.
Moved SecureSocket::send_or_hear_why() {
  const Moved sent = send_encrypted();
  if (sent.kind != Moved::Kind::kClosed || !tls_->endpoint->has_certificates() || !is_ready())
    return sent;
  std::byte none;
  const Moved heard = read({&none, 1});
  return heard.kind == Moved::Kind::kClosed && is_refused_ ? heard : sent;
}

// kBytes: it is over.
Moved SecureSocket::handshake(bool may_read) {
  while (!is_ready()) {
    ERR_clear_error();
    const int returned = SSL_do_handshake(tls_->ssl);
    if (returned != 1) {
      if (SSL_get_error(tls_->ssl, returned) != SSL_ERROR_WANT_READ) {
        const Moved failed = fail("the TLS handshake failed");
        // An alert says why. A peer that has got nothing yet gets no alert, and neither does a
        // peer without a key.
        if (tls_->endpoint->has_certificates() && tls_->has_spoken) (void)send_encrypted();
        return failed;
      }
      if (const Moved sent = send_encrypted(); sent.kind == Moved::Kind::kClosed) return sent;
      if (!may_read) return would_block();
      const Moved step = fill();
      if (step.kind != Moved::Kind::kBytes) return step;
      tls_->handshake_bytes += step.bytes;
      if (tls_->handshake_bytes > tls_->max_handshake_bytes())
        return fail("the TLS handshake is too long");
      continue;
    }
    if (!tls_->is_proven()) return fail("the TLS handshake used no key");
    if (const Moved sent = send_encrypted(); sent.kind == Moved::Kind::kClosed) return sent;
  }
  return moved(0);
}

// One look at the socket at most: a peer that sends records without data does not hold the others
// up.
Moved SecureSocket::read(std::span<std::byte> out) {
  if (tls_ == nullptr) {
    const Moved step = read_some(socket_, out);
    bytes_received_ += step.bytes;
    return step;
  }
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
    if (!tls_->streams.in.is_empty()) {
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
  if (const Moved step = send_or_hear_why(); step.kind != Moved::Kind::kBytes) return step;
  std::size_t taken = 0;
  for (const iovec& piece : pieces) {
    std::size_t at = 0;
    while (at < piece.iov_len && tls_->streams.out.bytes().size() < kMaxEncrypted) {
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
  if (const Moved step = send_or_hear_why(); step.kind == Moved::Kind::kClosed) return step;
  return moved(taken);
}

Moved SecureSocket::flush() {
  if (tls_ == nullptr) return moved(0);
  if (const Moved step = handshake(false); step.kind != Moved::Kind::kBytes) return step;
  return send_or_hear_why();
}

bool SecureSocket::wants_to_write() const {
  return tls_ != nullptr && !tls_->streams.out.is_empty();
}

// OpenSSL itself keeps one record at most: what it has not opened of that is not whole.
bool SecureSocket::has_unread() const {
  return tls_ != nullptr && is_ready() &&
         (SSL_pending(tls_->ssl) > 0 || !tls_->streams.in.is_empty());
}

std::size_t SecureSocket::waiting_bytes() const {
  return tls_ != nullptr ? tls_->streams.out.bytes().size() : 0;
}

std::size_t SecureSocket::own_bytes() const {
  if (tls_ == nullptr) return 0;
  // The peer's certificates are kept as they came, and parsed.
  const std::size_t chain = tls_->endpoint->has_certificates() ? 2 * tls_->handshake_bytes : 0;
  return kTlsStateBytes + chain + tls_->streams.in.capacity() + tls_->streams.out.capacity();
}

}  // namespace sparcl::net
