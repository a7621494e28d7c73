// Programs that know each other by certificates: those that the guide makes with openssl, those
// that must be refused, and metrics over HTTPS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include "src/net/host_port.hpp"
#include "src/net/name_lookup.hpp"
#include "src/net/secure_socket.hpp"
#include "src/replication/service_security.hpp"
#include "tests/support/test_authority.hpp"
#include "tests/support/tree.hpp"
#include "tests/tools/training_program.hpp"
#include "tools/sparcl/metrics_page.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tool::Metric;
using tool::MetricsPage;

// The block of shell commands of docs/guides/cluster-certificates.md.
std::string recipe() {
  const std::string page = read_text((tree() / "docs/guides/cluster-certificates.md").string());
  const std::string begin = "```bash\n";
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) return "echo the page has no recipe; exit 1";
  return page.substr(at + begin.size(), page.find("```", at + begin.size()) - at - begin.size());
}

class CertificatePrograms : public testing::Test {
 protected:
  std::string folder(const std::string& name) const { return training_ / name; }
  void write_roles() {
    for (const char* role : {"publish", "replicate", "observe"})
      authority_.write(folder(role), role);
  }

  const TestAuthority authority_;
  Training training_;
};

// On all interfaces: certificates are enough for that.
TEST_F(CertificatePrograms, TheGuidesRecipeMakesAService) {
  write_text(folder("recipe"), "set -eu\ncd '" + folder("") + "'\n" + recipe());
  ASSERT_EQ(std::system(fmt::format("bash '{0}' >'{0}.out' 2>&1", folder("recipe")).c_str()), 0)
      << read_text(folder("recipe.out"));
  const std::vector<std::string> files = training_.write_up_to(2);
  BackgroundProgram publisher(publish(
      {"--certificates", folder("publish"), "--interval", "0.5", files[0], files[1]}, ":0"));
  const std::string address = publisher.address();
  BackgroundProgram replica(
      subscribe(address, folder("out"), {"--certificates", folder("replicate"), "--until", "2"}));
  EXPECT_EQ(replica.exit_code(), 0) << replica.err();
  expect_same(folder("out"), files[1]);
  const ProgramRun status =
      run_program({"status", address, "--certificates", folder("observe"), "--json"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_EQ(status.json()["version"], 2);
  EXPECT_EQ(run_program({"status", address, "--json"},
                        fmt::format("SPARCL_CERTIFICATES='{}' ", folder("observe")))
                .exit_code,
            0);
}

TEST_F(CertificatePrograms, TheWrongOnesAreRefusedWithAReason) {
  write_roles();
  TestAuthority("another authority").write(folder("other"), "replicate");
  TestAuthority::replace(folder("other") + "/ca.crt", authority_.text(), 0644);
  const std::string file = training_.write_up_to(1)[0];
  BackgroundProgram publisher(publish({"--certificates", folder("publish"), file}));
  const std::string address = publisher.address();
  const auto replica_with = [&](const std::string& name) {
    return subscribe(address, folder("out"), {"--certificates", folder(name), "--timeout", "3"});
  };
  BackgroundProgram other(replica_with("other")), observer(replica_with("observe"));
  BackgroundProgram none(subscribe(address, folder("out"), {"--timeout", "3"}));
  EXPECT_EQ(other.exit_code(), 1) << other.err();
  EXPECT_THAT(other.err(), AllOf(HasSubstr("does not know the authority"),
                                 HasSubstr(folder("other") + "/tls.crt")));
  EXPECT_EQ(observer.exit_code(), 3) << observer.err();
  EXPECT_THAT(observer.err(), HasSubstr("has role observe, and role replicate is needed"));
  EXPECT_EQ(none.exit_code(), 1) << none.err();
  EXPECT_THAT(none.err(), HasSubstr("--certificates"));
  EXPECT_TRUE(publisher.says("is not of an authority in " + folder("publish") + "/ca.crt"));
  EXPECT_FALSE(fs::exists(folder("out")));
  const ProgramRun weak = run_program(
      {"publish", "--certificates", folder("replicate"), "--exit-when-acked", "0", file});
  EXPECT_EQ(weak.exit_code, 3) << weak.err;
  EXPECT_THAT(weak.err, HasSubstr("URI:sparcl:publish"));
}

TEST_F(CertificatePrograms, ASecretBesideThemIsAUsageError) {
  write_roles();
  ASSERT_EQ(run_program({"secret", "-o", folder("run")}).exit_code, 0);
  const std::string file = training_.write_up_to(1)[0];
  const std::vector<std::string> both = {"--certificates", folder("publish"), "--secret",
                                         folder("run")};
  for (std::vector<std::string> line :
       {std::vector<std::string>{"publish", file, "--exit-when-acked", "0"},
        std::vector<std::string>{"subscribe", "127.0.0.1:1", "--out", folder("out")},
        std::vector<std::string>{"status", "127.0.0.1:1"}}) {
    line.insert(line.end(), both.begin(), both.end());
    const ProgramRun run = run_program(line);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, AllOf(HasSubstr("exclude each other"), HasSubstr("--secret or ")));
  }
  // An option counts before the other setting; two settings do not.
  const std::string setting = fmt::format("SPARCL_SECRET='{}' ", folder("run"));
  EXPECT_EQ(
      run_program({"publish", file, "--exit-when-acked", "0", "--certificates", folder("publish")},
                  setting)
          .exit_code,
      0);
  EXPECT_EQ(run_program({"publish", file, "--exit-when-acked", "0"},
                        setting + fmt::format("SPARCL_CERTIFICATES='{}' ", folder("publish")))
                .exit_code,
            2);
}

// --- metrics ---

std::unique_ptr<MetricsPage> page_with(const std::string& certificates) {
  Result<std::unique_ptr<MetricsPage>> page = MetricsPage::open({"127.0.0.1:0", certificates}, [] {
    Metric metric{"one", std::string(100'000, 'x'), Metric::Kind::kGauge, {{{}, 1}}};
    return std::vector<Metric>{std::move(metric)};
  });
  EXPECT_TRUE(page.ok()) << page.status().message();
  return std::move(*page);
}

// What a reader hears, whose certificate is in this folder ("": it speaks HTTP).
std::string read_page(const std::string& page, const std::string& certificates) {
  const std::string port = page.substr(page.rfind(':') + 1);
  const auto where = net::parse_host_port("127.0.0.1:" + port.substr(0, port.find('/')));
  Result<net::Socket> connected = net::start_connect(net::resolve(*where)->front());
  net::TlsEndpointRef tls;
  const auto any = [](std::span<const std::string>) { return Result<int>(0); };
  if (!certificates.empty()) tls = *net::TlsEndpoint::client(certificates, any, any);
  net::SecureSocket socket(std::move(*connected), tls);
  const std::string question = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  std::string heard;
  std::size_t asked = 0;
  const double until = net::monotonic_seconds() + 20;
  while (net::monotonic_seconds() < until) {
    const iovec rest{const_cast<char*>(question.data()) + asked, question.size() - asked};
    const net::Moved wrote =
        asked < question.size() ? socket.write(std::span(&rest, 1)) : socket.flush();
    if (wrote.kind == net::Moved::Kind::kClosed) break;
    if (asked < question.size()) asked += wrote.bytes;
    std::array<std::byte, 4096> bytes;
    const net::Moved read = socket.read(bytes);
    if (read.kind == net::Moved::Kind::kClosed) break;
    heard.append(reinterpret_cast<const char*>(bytes.data()), read.bytes);
    pollfd entry{socket.fd(), POLLIN, 0};
    if (read.kind == net::Moved::Kind::kWouldBlock)
      net::poll_until(std::span(&entry, 1), net::monotonic_seconds() + 0.05);
  }
  return heard.empty() ? socket.failure() : heard;
}

TEST_F(CertificatePrograms, MetricsNeedACertificateOfARole) {
  write_roles();
  authority_.write(folder("none"), "");
  const auto page = page_with(folder("publish"));
  EXPECT_THAT(page->address(), HasSubstr("https://127.0.0.1:"));
  testing::internal::CaptureStderr();
  for (const char* role : {"observe", "replicate", "publish"}) {
    const std::string answer = read_page(page->address(), folder(role));
    EXPECT_THAT(answer, AllOf(HasSubstr("200 OK"), HasSubstr("\none 1\n"))) << role;
    EXPECT_GT(answer.size(), 100'000u);
  }
  EXPECT_THAT(read_page(page->address(), folder("none")), HasSubstr("has no role"));
  EXPECT_EQ(read_page(page->address(), "").find("200 OK"), std::string::npos);
  EXPECT_THAT(read_page(page->address(), folder("observe")), HasSubstr("200 OK"));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("--metrics: 127.0.0.1"), HasSubstr("has no role, and role observe")));
}

TEST_F(CertificatePrograms, CurlReadsTheMetricsOfBothSides) {
  if (std::system("command -v curl >/dev/null") != 0) GTEST_SKIP() << "no curl here";
  write_roles();
  const std::string file = training_.write_up_to(1)[0];
  BackgroundProgram publisher(
      publish({"--certificates", folder("publish"), "--metrics", "0.0.0.0:0", file}));
  ASSERT_TRUE(publisher.says("metrics at https://0.0.0.0:")) << publisher.err();
  BackgroundProgram replica(
      subscribe(publisher.address(), folder("out"),
                {"--certificates", folder("replicate"), "--metrics", "127.0.0.1:0"}));
  ASSERT_TRUE(replica.says("metrics at https://127.0.0.1:")) << replica.err();
  const auto curl = [&](const BackgroundProgram& of, const std::string& how) {
    const std::string said = of.err(), page = said.substr(0, said.find("/metrics\n"));
    const std::string line =
        fmt::format("curl -sS --max-time 20 {} https://127.0.0.1{}/metrics >'{}' 2>&1", how,
                    page.substr(page.rfind(':')), folder("page"));
    const int status = std::system(line.c_str());
    return fmt::format("{} {}", status, read_text(folder("page")));
  };
  const std::string observer = fmt::format(
      "--cacert '{0}/ca.crt' --cert '{0}/tls.crt' --key "
      "'{0}/tls.key'",
      folder("observe"));
  EXPECT_THAT(curl(publisher, observer),
              AllOf(testing::StartsWith("0 "), HasSubstr("\nsparcl_publisher_version 1\n")));
  EXPECT_THAT(curl(replica, observer), HasSubstr("sparcl_subscriber_version"));
  const std::string unknown = fmt::format("--cacert '{}/ca.crt'", folder("observe"));
  EXPECT_THAT(curl(publisher, unknown), testing::Not(HasSubstr("sparcl_publisher_version")));
  EXPECT_TRUE(publisher.says("shows no certificate")) << publisher.err();
}

}  // namespace
}  // namespace sparcl::test
