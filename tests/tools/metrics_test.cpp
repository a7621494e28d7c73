// `--metrics`: what Prometheus reads of a publisher and of a replica.
#include "tools/sparcl/metrics.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "tests/tools/background_program.hpp"

namespace sparcl::tool {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Metric* find(const std::vector<Metric>& metrics, const std::string& name) {
  for (const Metric& each : metrics) {
    if (each.name == name) return &each;
  }
  return nullptr;
}

TEST(Metrics, APublishersReportBecomesFiguresOfEachReplica) {
  const Json report = Json::parse(R"({"version": 7, "kept_updates": 3, "kept_bytes": 1000, "replicas": [
      {"name": "host a", "version": 7, "lag": 0, "bytes_sent": 10, "bytes_shared": 5, "refused": 0, "state": "current"},
      {"name": "host b", "version": 4, "lag": 3, "bytes_sent": 20, "bytes_shared": 0, "refused": 2, "state": "behind"}]})");
  const std::vector<Metric> metrics = publisher_metrics(report);
  ASSERT_NE(find(metrics, "sparcl_publisher_version"), nullptr);
  EXPECT_EQ(find(metrics, "sparcl_publisher_version")->samples[0].value, 7);
  EXPECT_EQ(find(metrics, "sparcl_publisher_replicas")->samples[0].value, 2);
  const Metric* lag = find(metrics, "sparcl_replica_lag_versions");
  ASSERT_TRUE(lag != nullptr && lag->samples.size() == 2);
  EXPECT_EQ(lag->samples[1].value, 3);
  EXPECT_EQ(lag->samples[1].labels[0].second, "host b");
  EXPECT_EQ(find(metrics, "sparcl_replica_refused_updates_total")->kind, Metric::Kind::kCounter);
  EXPECT_EQ(find(metrics, "sparcl_replica_state")->samples[1].labels[1].second, "behind");
}

// Before the first version there is no report.
TEST(Metrics, AReportThatIsNoneGivesNoFigures) {
  for (const char* text : {"", "[]", "7"}) EXPECT_TRUE(publisher_metrics(Json::parse(text, nullptr, false)).empty()) << text;
  EXPECT_EQ(find(publisher_metrics(Json::object()), "sparcl_publisher_version")->samples[0].value, 0);
}

bool can_serve() {
  return MetricsPage::open("127.0.0.1:0", [] { return std::vector<Metric>(); }).status().code() != Code::kUnsupported;
}

// "http://127.0.0.1:4711/metrics" of what a program has said.
int port_of_page(const test::BackgroundProgram& program) {
  const std::string said = program.err(), before = "metrics at http://127.0.0.1:";
  const std::size_t at = said.find(before);
  return at == std::string::npos ? 0 : std::atoi(said.c_str() + at + before.size());
}

std::string get(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  const std::string question = "GET /metrics HTTP/1.0\r\n\r\n";
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 &&
      ::send(fd, question.data(), question.size(), MSG_NOSIGNAL) > 0) {
    std::array<char, 4096> bytes;
    for (ssize_t count = 0; (count = ::recv(fd, bytes.data(), bytes.size(), 0)) > 0;)
      answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
  ::close(fd);
  return answer;
}

TEST(Metrics, AreServedByPublishAndSubscribe) {
  if (!can_serve()) GTEST_SKIP() << "skipped: built without prometheus-cpp";
  test::TempFolder folder;
  const std::string file = folder / "1.safetensors";
  test::write_model(file, test::small_model());
  test::BackgroundProgram publisher({"publish", file, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"});
  const std::string address = publisher.address();
  ASSERT_TRUE(publisher.says("metrics at http://127.0.0.1:")) << publisher.err();
  test::BackgroundProgram subscriber({"subscribe", address, "--out", folder / "out", "--metrics", "127.0.0.1:0"});
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  EXPECT_THAT(get(port_of_page(subscriber)), AllOf(HasSubstr("200 OK"), HasSubstr("\nsparcl_subscriber_version 1\n"),
                                                   HasSubstr("\nsparcl_subscriber_swaps_total 1\n"),
                                                   HasSubstr("\nsparcl_subscriber_trouble{code=\"sparclSuccess\"} 0\n")));
  std::string page;
  for (int i = 0; i < 400 && page.find("state=\"current\"") == std::string::npos; ++i) {
    page = get(port_of_page(publisher));
    usleep(20'000);
  }
  EXPECT_THAT(page, AllOf(HasSubstr("\nsparcl_publisher_version 1\n"), HasSubstr("\nsparcl_publisher_replicas 1\n"),
                          HasSubstr("sparcl_replica_lag_versions{replica=\"host "), HasSubstr("state=\"current\"} 1\n")));
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0);
  EXPECT_EQ(publisher.end_by(SIGTERM), 0);
}

TEST(Metrics, APortThatAnotherHasIsToldSo) {
  if (!can_serve()) GTEST_SKIP() << "skipped: built without prometheus-cpp";
  test::TempFolder folder;
  const std::string file = folder / "1.safetensors";
  test::write_model(file, test::small_model());
  test::BackgroundProgram first({"publish", file, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"});
  ASSERT_TRUE(first.says("metrics at http://127.0.0.1:")) << first.err();
  const std::string taken = fmt::format("127.0.0.1:{}", port_of_page(first));
  test::BackgroundProgram second({"publish", file, "--listen", "127.0.0.1:0", "--metrics", taken});
  EXPECT_NE(second.exit_code(), 0);
  EXPECT_THAT(second.err(), AllOf(HasSubstr("--metrics " + taken), HasSubstr("another program may have it")));
}

}  // namespace
}  // namespace sparcl::tool
