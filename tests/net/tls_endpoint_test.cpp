// Connections between endpoints with certificates: who is taken, what each side hears of a refusal,
// and files that change.

#include "src/net/tls_endpoint.hpp"

#include <gmock/gmock.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "src/net/secure_socket.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::net {
namespace {

using test::CertificateTerms;
using test::TestAuthority;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Takes certificates with this role.
TlsEndpoint::Judge wants(const std::string& role) {
  return [role](std::span<const std::string> uris) -> Result<int> {
    for (const std::string& each : uris) {
      if (each == "sparcl:" + role) return 5;
    }
    return Status(Code::kUnauthorized, "has no role " + role);
  };
}

class TlsCertificates : public testing::Test {
 protected:
  TlsCertificates() {
    authority_.write(server_path_, "publish");
    authority_.write(client_path_, "replicate");
  }
  TlsEndpointRef server() const {
    Result<TlsEndpointRef> made =
        TlsEndpoint::server(server_path_, wants("publish"), wants("replicate"));
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  // Another folder's certificate is not judged when it is read.
  TlsEndpointRef client() const {
    const auto any = [](std::span<const std::string>) { return Result<int>(0); };
    Result<TlsEndpointRef> made = TlsEndpoint::client(client_path_, any, wants("publish"));
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *made;
  }
  CertificateTerms terms(const std::string& role) const {
    CertificateTerms made;
    made.role = role;
    return made;
  }

  const TestAuthority authority_;
  const test::TempFolder folder_;
  const std::string server_path_ = folder_ / "server", client_path_ = folder_ / "client";
};

struct Link {
  Link(TlsEndpointRef client_end, TlsEndpointRef server_end) {
    for (const TlsEndpointRef& each : {client_end, server_end}) {
      if (each != nullptr) each->look_again();
    }
    int fds[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client = SecureSocket(Socket(fds[0]), std::move(client_end));
    server = SecureSocket(Socket(fds[1]), std::move(server_end));
  }
  // Both ends as owners use them: one that has failed is closed. A word of the client comes
  // through.
  bool talk() {
    std::string heard;
    for (int i = 0; i < 30 && heard.empty(); ++i) {
      const iovec word{const_cast<char*>("word"), 4};
      if (client.is_open() && i == 3) go_on(client, client.write(std::span(&word, 1)));
      for (SecureSocket* end : {&client, &server}) {
        if (!end->is_open()) continue;
        go_on(*end, end->flush());
        std::array<std::byte, 16> bytes;
        if (!end->is_open()) continue;
        const Moved read = end->read(bytes);
        if (read.kind == Moved::Kind::kBytes)
          heard.assign(reinterpret_cast<const char*>(bytes.data()), read.bytes);
        go_on(*end, read);
      }
    }
    return heard == "word";
  }
  static void go_on(SecureSocket& end, const Moved& step) {
    if (step.kind == Moved::Kind::kClosed) end.close();
  }
  SecureSocket client, server;
};

TEST_F(TlsCertificates, BothEndsKnowEachOther) {
  Link link(client(), server());
  EXPECT_FALSE(link.server.peer_tag().has_value());
  ASSERT_TRUE(link.talk()) << link.client.failure() << link.server.failure();
  EXPECT_EQ(link.server.peer_tag(), 5);
  EXPECT_EQ(link.client.peer_tag(), 5);
  EXPECT_EQ(*link.client.exporter(), *link.server.exporter());
}

TEST_F(TlsCertificates, SeveralAuthoritiesMayBeInUse) {
  authority_.write(client_path_, "replicate");
  TestAuthority::replace(server_path_ + "/ca.crt", TestAuthority("old").text() + authority_.text(),
                         0644);
  Link link(client(), server());
  EXPECT_TRUE(link.talk()) << link.client.failure() << link.server.failure();
}

constexpr long kSoon = 3;  // seconds: a certificate is read within them

// The server's log and the client's error both have the reason.
TEST_F(TlsCertificates, RefusedClientsHearWhy) {
  const TestAuthority other("another authority");
  CertificateTerms expires = terms("replicate"), future = terms("replicate"),
                   servers = terms("replicate");
  expires.until_s = kSoon;
  future.from_s = 3600;
  future.until_s = 7200;
  servers.use = "serverAuth";
  const struct {
    const char* what;
    const TestAuthority& authority;
    CertificateTerms terms;
    const char *log, *error;
  } kRefused[] = {
      {"another authority", other, terms("replicate"), "is not of an authority in",
       "does not know the authority"},
      {"expired meanwhile", authority_, expires, "has expired at", "has expired: renew it"},
      {"not valid yet", authority_, future, "is not valid before", "its log has the reason"},
      {"for servers alone", authority_, servers, "lacks clientAuth", "extendedKeyUsage"},
      {"another role", authority_, terms("observe"), "has no role replicate", "too weak a role"},
      {"no role", authority_, terms(""), "has no role replicate", "has no role"}};
  for (const auto& each : kRefused) {
    SCOPED_TRACE(each.what);
    each.authority.write(client_path_, each.terms);
    TestAuthority::replace(client_path_ + "/ca.crt", authority_.text(), 0644);
    Link link(client(), server());
    if (each.terms.until_s == kSoon) ::sleep(kSoon + 1);
    EXPECT_FALSE(link.talk());
    EXPECT_TRUE(link.server.is_refused() && link.client.is_refused());
    EXPECT_THAT(link.server.failure(), AllOf(HasSubstr(each.log), HasSubstr("serial ")));
    EXPECT_THAT(link.client.failure(),
                AllOf(HasSubstr(each.error), HasSubstr(client_path_ + "/tls.crt")));
    EXPECT_FALSE(link.server.peer_tag().has_value());
  }
}

TEST_F(TlsCertificates, RefusedServersHearWhy) {
  const TestAuthority other("another authority");
  CertificateTerms clients = terms("publish");
  clients.use = "clientAuth";
  const struct {
    const char* what;
    const TestAuthority& authority;
    CertificateTerms terms;
    const char *error, *log;
  } kRefused[] = {
      {"another authority", other, terms("publish"), "is not of an authority in",
       "does not know the authority"},
      {"for clients alone", authority_, clients, "lacks serverAuth", "extendedKeyUsage"}};
  for (const auto& each : kRefused) {
    SCOPED_TRACE(each.what);
    each.authority.write(server_path_, each.terms);
    Link link(client(), server());
    EXPECT_FALSE(link.talk());
    EXPECT_THAT(link.client.failure(), HasSubstr(each.error));
    EXPECT_THAT(link.server.failure(), HasSubstr(each.log));
  }
  // A replica of the same authority is no publisher.
  const auto any = [](std::span<const std::string>) { return Result<int>(0); };
  Link link(client(), *TlsEndpoint::server(client_path_, any, any));
  EXPECT_FALSE(link.talk());
  EXPECT_THAT(link.client.failure(), HasSubstr("has no role publish"));
}

TEST_F(TlsCertificates, AClientWithoutACertificateIsRefused) {
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  Link link(nullptr, server());
  const std::shared_ptr<SSL> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), link.client.fd());
  SSL_set_connect_state(ssl.get());
  for (int i = 0; i < 10; ++i) {
    (void)SSL_do_handshake(ssl.get());
    std::byte none;
    if (link.server.read({&none, 1}).kind == Moved::Kind::kClosed) break;
  }
  EXPECT_THAT(link.server.failure(), HasSubstr("shows no certificate"));
  EXPECT_FALSE(link.server.is_ready());
}

// A peer that speaks no TLS 1.3 gets nothing; neither do the holders of a secret.
TEST_F(TlsCertificates, OtherProgramsGetAClosedConnection) {
  for (const char* text : {"SRP1 in the clear", "GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff"}) {
    Link link(nullptr, server());
    const iovec piece{const_cast<char*>(text), std::strlen(text)};
    ASSERT_EQ(link.client.write(std::span(&piece, 1)).kind, Moved::Kind::kBytes);
    ::shutdown(link.client.fd(), SHUT_WR);
    std::byte none;
    EXPECT_EQ(link.server.read({&none, 1}).kind, Moved::Kind::kClosed) << text;
    char byte = 0;
    EXPECT_EQ(::recv(link.client.fd(), &byte, 1, 0), -1) << text;
    EXPECT_FALSE(link.server.is_refused());
  }
  Link with_key(*TlsEndpoint::client("name", std::move(*trust::SecretBytes::zeros())), server());
  EXPECT_FALSE(with_key.talk());
  Link to_key(client(), *TlsEndpoint::server([](std::string_view) {
                return std::optional<TlsEndpoint::KnownKey>();
              }));
  EXPECT_FALSE(to_key.talk());
}

// A peer's certificates take memory before the peer is known.
TEST_F(TlsCertificates, ALongChainEndsTheConnection) {
  std::string chain = test::read_text(client_path_ + "/tls.crt");
  TestAuthority::replace(client_path_ + "/tls.crt", chain + authority_.text(), 0644);
  Link sound(client(), server());
  EXPECT_TRUE(sound.talk()) << sound.client.failure() << sound.server.failure();
  EXPECT_LT(sound.server.own_bytes(), std::size_t{64} << 10);
  for (int i = 0; i < 200; ++i) chain += authority_.text();
  TestAuthority::replace(client_path_ + "/tls.crt", chain, 0644);
  Link link(client(), server());
  EXPECT_FALSE(link.talk());
  EXPECT_FALSE(link.server.failure().empty());
  EXPECT_FALSE(link.server.peer_tag().has_value());
}

TEST_F(TlsCertificates, TheOwnCertificateIsJudgedWhenItIsRead) {
  const Status status =
      TlsEndpoint::server(client_path_, wants("publish"), wants("replicate")).status();
  EXPECT_EQ(status.code(), Code::kUnauthorized);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(client_path_ + "/tls.crt"), HasSubstr("replicate"),
                                      HasSubstr("has no role publish")));
}

TEST_F(TlsCertificates, NewFilesServeNewConnections) {
  const TlsEndpointRef one = server(), other = client();
  Link before(other, one);
  ASSERT_TRUE(before.talk());
  const TestAuthority next("the next authority");
  const auto used = one->context();
  next.write(server_path_, "publish");
  EXPECT_EQ(one->context(), used) << "it touches no file: it may be called with a mutex";
  EXPECT_FALSE(Link(other, one).talk());  // the client's are the old ones
  EXPECT_NE(one->context(), used);
  next.write(client_path_, "replicate");
  Link after(other, one);
  EXPECT_TRUE(after.talk()) << after.client.failure() << after.server.failure();
  const iovec word{const_cast<char*>("more"), 4};
  ASSERT_EQ(before.client.write(std::span(&word, 1)).bytes, 4u);
  std::array<std::byte, 16> bytes;
  EXPECT_EQ(before.server.read(bytes).bytes, 4u);  // an old connection lives on
}

TEST_F(TlsCertificates, FilesThatCannotBeUsedLeaveTheOldOnesInUse) {
  const TlsEndpointRef one = server(), other = client();
  const std::string key = test::read_text(server_path_ + "/tls.key");
  testing::internal::CaptureStderr();
  TestAuthority::replace(server_path_ + "/tls.key", "half a k", 0600);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Link(other, one).talk());
  ::usleep(1'100'000);
  EXPECT_TRUE(Link(other, one).talk());
  const std::string log = testing::internal::GetCapturedStderr();
  const std::size_t at = log.find("the old ones stay in use");
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("the old ones stay in use", at + 1), std::string::npos) << "once: " << log;
  EXPECT_THAT(log, HasSubstr("tls.key: it holds no private key"));
  // Once they are whole, they are taken.
  const TestAuthority next("the next authority");
  next.write(server_path_, "publish");
  ::usleep(1'100'000);
  EXPECT_FALSE(Link(other, one).talk());
}

// Threads of the service and of the metrics share an endpoint.
TEST_F(TlsCertificates, ThreadsMeetFilesThatChange) {
  const TlsEndpointRef one = server(), other = client();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!is_over) EXPECT_TRUE(Link(other, one).talk());
    });
  }
  for (int i = 0; i < 20; ++i) authority_.write(server_path_, "publish");
  is_over = true;
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace sparcl::net
