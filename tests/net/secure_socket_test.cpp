// TLS over sockets that never block: handshakes, long transfers, and strangers.

#include "src/net/secure_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace sparcl::net {
namespace {

using ByteVector = std::vector<std::byte>;

trust::SecretBytes key_of(std::byte fill) {
  trust::SecretBytes key = std::move(*trust::SecretBytes::zeros());
  std::ranges::fill(key.bytes(), fill);
  return key;
}

// Knows "a" by 0 and "b" by 7.
TlsEndpointRef server() {
  return *TlsEndpoint::server(
      [](std::string_view identity) -> std::optional<TlsEndpoint::KnownKey> {
        if (identity == "a") return TlsEndpoint::KnownKey{key_of(std::byte{1}), 0};
        if (identity == "b") return TlsEndpoint::KnownKey{key_of(std::byte{2}), 7};
        return {};
      });
}
TlsEndpointRef client(const char* identity = "b", std::byte fill = std::byte{2}) {
  return *TlsEndpoint::client(identity, key_of(fill));
}

struct Pair {
  Pair(TlsEndpointRef one, TlsEndpointRef other) {
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    a = SecureSocket(Socket(fds[0]), std::move(one));
    b = SecureSocket(Socket(fds[1]), std::move(other));
  }
  // The ends of the handshake, or a failure.
  bool shake() {
    for (int i = 0; i < 20 && !(a.is_ready() && b.is_ready()); ++i) {
      std::byte none;
      for (SecureSocket* end : {&a, &b}) {
        if (end->flush().kind == Moved::Kind::kClosed) return false;
        if (end->read({&none, 1}).kind == Moved::Kind::kClosed) return false;
      }
    }
    return a.is_ready() && b.is_ready();
  }
  SecureSocket a, b;
};

ByteVector noise(std::size_t count) {
  ByteVector bytes(count);
  std::mt19937_64 random(count);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

// Sends all, and reads what comes at the other end in pieces of odd sizes.
ByteVector carry(SecureSocket& from, SecureSocket& to, const ByteVector& sent) {
  ByteVector got;
  std::size_t at = 0;
  for (int idle = 0; got.size() < sent.size() && idle < 1000; ++idle) {
    const iovec pieces[2] = {
        {const_cast<std::byte*>(sent.data()) + at, std::min<std::size_t>(7, sent.size() - at)},
        {const_cast<std::byte*>(sent.data()) + std::min(at + 7, sent.size()),
         sent.size() - std::min(at + 7, sent.size())}};
    const Moved wrote = from.write(pieces);
    if (wrote.kind == Moved::Kind::kClosed) break;
    if (wrote.kind == Moved::Kind::kBytes) at += wrote.bytes;
    (void)from.flush();
    for (std::size_t size = 1;; size = size * 3 % 10'007) {
      ByteVector piece(size);
      const Moved read = to.read(piece);
      if (read.kind != Moved::Kind::kBytes) break;
      got.insert(got.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(read.bytes));
      idle = 0;
    }
  }
  return got;
}

TEST(SecureSocket, CarriesBytesBothWays) {
  for (const bool is_encrypted : {false, true}) {
    Pair pair(is_encrypted ? client() : nullptr, is_encrypted ? server() : nullptr);
    ASSERT_TRUE(pair.shake()) << pair.a.failure() << pair.b.failure();
    for (const std::size_t count : {std::size_t{1}, std::size_t{16384}, std::size_t{3'000'001}}) {
      const ByteVector sent = noise(count);
      EXPECT_EQ(carry(pair.a, pair.b, sent), sent);
      EXPECT_EQ(carry(pair.b, pair.a, sent), sent);
    }
    EXPECT_EQ(pair.a.is_encrypted(), is_encrypted);
  }
}

TEST(SecureSocket, BothEndsHaveOneExporterAndTheServerKnowsItsClient) {
  Pair pair(client(), server()), other(client("a", std::byte{1}), server());
  EXPECT_FALSE(pair.a.exporter().ok());  // before the handshake
  EXPECT_FALSE(pair.b.peer_tag().has_value());
  ASSERT_TRUE(pair.shake());
  ASSERT_TRUE(other.shake());
  EXPECT_EQ(*pair.a.exporter(), *pair.b.exporter());
  EXPECT_NE(*pair.a.exporter(), *other.a.exporter());
  EXPECT_EQ(pair.b.peer_tag(), 7);
  EXPECT_EQ(other.b.peer_tag(), 0);
  Pair plain(nullptr, nullptr);
  EXPECT_TRUE(plain.a.is_ready());
  EXPECT_FALSE(plain.a.exporter().ok());
}

// And nothing is said to them.
TEST(SecureSocket, StrangersGetAClosedConnection) {
  const struct {
    const char* what;
    TlsEndpointRef stranger;
  } kStrangers[] = {{"an unknown name", client("c")},
                    {"a wrong key", client("b", std::byte{3})},
                    {"a name that is longer", client("b\n")}};
  for (const auto& each : kStrangers) {
    Pair pair(each.stranger, server());
    EXPECT_FALSE(pair.shake()) << each.what;
    EXPECT_FALSE(pair.b.failure().empty()) << each.what;
    char byte = 0;
    EXPECT_EQ(::recv(pair.a.fd(), &byte, 1, 0), -1) << each.what;
  }
  for (const char* text : {"SRP1 in the clear", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff"}) {
    Pair pair(nullptr, server());
    const iovec piece{const_cast<char*>(text), std::strlen(text)};
    ASSERT_EQ(pair.a.write({&piece, 1}).kind, Moved::Kind::kBytes);
    ::shutdown(pair.a.fd(), SHUT_WR);
    std::byte none;
    EXPECT_EQ(pair.b.read({&none, 1}).kind, Moved::Kind::kClosed) << text;
    char byte = 0;
    EXPECT_EQ(::recv(pair.a.fd(), &byte, 1, 0), -1) << text;
  }
}

// A client that offers a key takes no server for granted that has none.
TEST(SecureSocket, AServerWithoutTheKeyIsRefused) {
  Pair pair(client(), *TlsEndpoint::server(
                          [](std::string_view) { return std::optional<TlsEndpoint::KnownKey>(); }));
  EXPECT_FALSE(pair.shake());
  Pair other(client(), *TlsEndpoint::server([](std::string_view) {
               return std::optional(TlsEndpoint::KnownKey{key_of(std::byte{9}), 0});
             }));
  EXPECT_FALSE(other.shake());
}

TEST(SecureSocket, AnyChangedByteEndsTheConnection) {
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    Pair pair(client(), server());
    ASSERT_TRUE(pair.shake());
    const ByteVector sent = noise(1000);
    const iovec piece{const_cast<std::byte*>(sent.data()), sent.size()};
    ASSERT_EQ(pair.a.write({&piece, 1}).bytes, sent.size());
    // A man in the middle: what was sent comes to another socket, changed.
    ByteVector seen(4096);
    const ssize_t count = ::recv(pair.b.fd(), seen.data(), seen.size(), 0);
    ASSERT_GT(count, 1000);
    seen[random() % static_cast<std::size_t>(count)] ^= std::byte{1} << (random() % 8);
    ASSERT_EQ(::send(pair.a.fd(), seen.data(), static_cast<std::size_t>(count), 0), count);
    ByteVector got(2000);
    Moved read = pair.b.read(got);
    // A longer length makes the reader wait for bytes that never come.
    if (read.kind == Moved::Kind::kWouldBlock) {
      ::shutdown(pair.a.fd(), SHUT_WR);
      read = pair.b.read(got);
    }
    EXPECT_EQ(read.kind, Moved::Kind::kClosed) << i;
  }
}

// A client of OpenSSL's own, which may do what SecureSocket never does.
struct RawClient {
  explicit RawClient(int fd) : endpoint(client()), ssl(SSL_new(endpoint->context().get())) {
    SSL_set_fd(ssl, fd);
    SSL_set_connect_state(ssl);
  }
  ~RawClient() { SSL_free(ssl); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  TlsEndpointRef endpoint;
  SSL* ssl;
};

// Each costs a new key. A connection that sends little else ends, and no read() takes all of them.
TEST(SecureSocket, AFloodOfKeyUpdatesEndsTheConnection) {
  Pair pair(nullptr, server());
  const RawClient flooder(pair.a.fd());
  for (int i = 0; i < 20 && !pair.b.is_ready(); ++i) {
    (void)SSL_do_handshake(flooder.ssl);
    std::byte none;
    (void)pair.b.read({&none, 1});
  }
  ASSERT_TRUE(pair.b.is_ready());
  ASSERT_EQ(SSL_write(flooder.ssl, "data", 4), 4);
  ByteVector got(100);
  EXPECT_EQ(pair.b.read(got).bytes, 4u);
  for (int i = 0; i < 20; ++i) {  // a few are allowed
    ASSERT_EQ(SSL_key_update(flooder.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_do_handshake(flooder.ssl), 1);
  }
  ASSERT_EQ(SSL_write(flooder.ssl, "data", 4), 4);
  EXPECT_EQ(pair.b.read(got).bytes, 4u);
  for (int i = 0; i < 1000; ++i) {
    (void)SSL_key_update(flooder.ssl, SSL_KEY_UPDATE_REQUESTED);
    (void)SSL_do_handshake(flooder.ssl);
  }
  Moved last;
  int reads = 0;
  do last = pair.b.read(got);
  while (last.kind != Moved::Kind::kClosed && ++reads < 100);
  EXPECT_EQ(last.kind, Moved::Kind::kClosed);
  EXPECT_THAT(pair.b.failure(), testing::HasSubstr("records without data"));
}

// A hello of 128 KiB that comes byte by byte, each in a record of its own.
TEST(SecureSocket, ALongHandshakeEndsTheConnection) {
  Pair pair(nullptr, server());
  std::size_t sent = 0;
  bool is_closed = false;
  for (int i = 0; i < 40'000 && !is_closed; ++i) {
    const unsigned char head[4] = {1, 2, 0, 0};  // a ClientHello of 0x20000 bytes
    const unsigned char record[6] = {22, 3, 1,
                                     0,  1, i < 4 ? head[i] : static_cast<unsigned char>(3)};
    if (::send(pair.a.fd(), record, sizeof record, MSG_NOSIGNAL) == sizeof record)
      sent += sizeof record;
    std::byte none;
    if (i % 100 == 99) is_closed = pair.b.read({&none, 1}).kind == Moved::Kind::kClosed;
  }
  EXPECT_TRUE(is_closed);
  EXPECT_LT(sent, std::size_t{32} << 10);
}

TEST(SecureSocket, AnIdleConnectionKeepsLittleMemory) {
  Pair pair(client(), server());
  ASSERT_TRUE(pair.shake());
  const ByteVector sent = noise(1'000'000);
  ASSERT_EQ(carry(pair.a, pair.b, sent), sent);
  EXPECT_LT(pair.a.own_bytes(), std::size_t{40} << 10);
  EXPECT_LT(pair.b.own_bytes(), std::size_t{40} << 10);
  EXPECT_FALSE(pair.a.wants_to_write());
  EXPECT_FALSE(pair.b.has_unread());
  EXPECT_EQ(pair.a.waiting_bytes(), 0u);
}

}  // namespace
}  // namespace sparcl::net
