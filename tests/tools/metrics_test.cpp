// `--metrics`: what Prometheus reads of a publisher and of a replica.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cmath>

#include "src/replication/peer_counts.hpp"
#include "tests/tools/background_program.hpp"
#include "tools/sparcl/metrics_page.hpp"

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
  const Json report = Json::parse(
      R"({"version": 7, "kept_updates": 3, "kept_bytes": 1000, "peer_bytes": 30, "peer_bytes_limit": 40,
      "peer_bytes_unproven": 10, "peer_bytes_unproven_limit": 20, "replicas_lost": 5,
      "refused": {"handshake": 6, "role": 1, "malformed": -1, "another": 3}, "replicas": [
      {"name": "host a, pid 1", "replica": "actor", "host": "a", "slot": 0, "version": 7, "lag": 0, "bytes_sent": 10, "bytes_shared": 5, "refused": 0, "state": "current"},
      {"name": "host b, pid 2", "replica": "actor", "host": "b", "slot": 1, "version": 4, "lag": 3, "bytes_sent": 20, "bytes_shared": 0, "refused": 2, "state": "behind"},
      {"name": "host c, pid 1", "replica": "actor", "host": "c", "slot": 0, "version": null, "lag": null, "refused": 0, "state": "behind"}],
      "replicas_left_out": 9})");
  const std::vector<Metric> metrics = publisher_metrics(report);
  ASSERT_NE(find(metrics, "sparcl_publisher_version"), nullptr);
  EXPECT_EQ(find(metrics, "sparcl_publisher_version")->samples[0].value, 7);
  EXPECT_EQ(find(metrics, "sparcl_publisher_replicas")->samples[0].value, 3);
  EXPECT_EQ(find(metrics, "sparcl_publisher_unlisted_replicas")->samples[0].value, 9);
  EXPECT_TRUE(std::isnan(find(metrics, "sparcl_replica_version")->samples[2].value));
  EXPECT_THAT(
      exposition(metrics),
      HasSubstr("sparcl_replica_lag_versions{replica=\"actor\",host=\"c\",slot=\"0\"} NaN\n"));
  const Metric* lag = find(metrics, "sparcl_replica_lag_versions");
  ASSERT_TRUE(lag != nullptr && lag->samples.size() == 3);
  EXPECT_EQ(lag->samples[1].value, 3);
  const std::vector<std::pair<std::string, std::string>> labels{
      {"replica", "actor"}, {"host", "b"}, {"slot", "1"}};
  EXPECT_EQ(lag->samples[1].labels, labels);
  EXPECT_EQ(find(metrics, "sparcl_publisher_lost_replicas_total")->samples[0].value, 5);
  EXPECT_EQ(find(metrics, "sparcl_publisher_peer_bytes")->samples[0].value, 30);
  EXPECT_EQ(find(metrics, "sparcl_publisher_peer_bytes_limit")->samples[0].value, 40);
  EXPECT_EQ(find(metrics, "sparcl_publisher_peer_bytes_unproven")->samples[0].value, 10);
  EXPECT_EQ(find(metrics, "sparcl_publisher_peer_bytes_unproven_limit")->samples[0].value, 20);
  EXPECT_EQ(find(metrics, "sparcl_replica_refused_updates_total")->kind, Metric::Kind::kCounter);
  const Metric* refused = find(metrics, "sparcl_refused_total");
  ASSERT_TRUE(refused != nullptr && refused->samples.size() == replication::kRefusalNames.size());
  EXPECT_EQ(refused->kind, Metric::Kind::kCounter);
  EXPECT_EQ(refused->samples[0].value, 6);
  EXPECT_THAT(exposition(metrics), HasSubstr("sparcl_refused_total{reason=\"role\"} 1\n"));
  EXPECT_EQ(find(metrics, "sparcl_replica_state")->samples[1].labels.back().second, "behind");
}

// Before the first version there is no report.
TEST(Metrics, AReportThatIsNoneGivesNoFigures) {
  for (const char* text : {"", "[]", "7"})
    EXPECT_TRUE(publisher_metrics(Json::parse(text, nullptr, false)).empty()) << text;
  EXPECT_EQ(find(publisher_metrics(Json::object()), "sparcl_publisher_version")->samples[0].value,
            0);
}

// "http://127.0.0.1:4711/metrics" of what a program has said.
int port_of_page(const test::BackgroundProgram& program) {
  const std::string said = program.err(), before = "metrics at http://127.0.0.1:";
  const std::size_t at = said.find(before);
  return at == std::string::npos ? 0 : std::atoi(said.c_str() + at + before.size());
}

// A connection on which this much of a request was sent.
int ask(int port, const std::string& question) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{60, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  EXPECT_EQ(::send(fd, question.data(), question.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(question.size()));
  return fd;
}

// All that comes until the other side closes.
std::string answer_on(int fd) {
  std::string answer;
  std::array<char, 4096> bytes;
  for (ssize_t count = 0; (count = ::recv(fd, bytes.data(), bytes.size(), 0)) > 0;)
    answer.append(bytes.data(), static_cast<std::size_t>(count));
  ::close(fd);
  return answer;
}

std::string get(int port) { return answer_on(ask(port, "GET /metrics HTTP/1.0\r\n\r\n")); }

std::unique_ptr<MetricsPage> page_of_one() {
  auto page = MetricsPage::open({"127.0.0.1:0"}, [] {
    return std::vector<Metric>{{"one", "A.", Metric::Kind::kGauge, {{{}, 1}}}};
  });
  EXPECT_TRUE(page.ok()) << page.status().message();
  return std::move(*page);
}

int port_of(const MetricsPage& page) {
  return std::atoi(page.address().c_str() + page.address().rfind(':') + 1);
}

TEST(Metrics, HalfSentRequestsHoldUpNoReader) {
  const auto page = page_of_one();
  std::vector<int> slow;
  for (int i = 0; i < 200; ++i)
    slow.push_back(ask(port_of(*page), i % 2 == 0 ? "GET /met" : ""));  // more than are kept
  EXPECT_THAT(get(port_of(*page)), HasSubstr("\none 1\n"));
  EXPECT_EQ(answer_on(slow.front()), "");  // it had to go
  for (std::size_t i = 1; i < slow.size(); ++i) ::close(slow[i]);
  EXPECT_THAT(get(port_of(*page)), HasSubstr("\none 1\n"));
}

TEST(Metrics, RequestsThatArriveInPiecesAreAnswered) {
  const auto page = page_of_one();
  const int fd = ask(port_of(*page), "GET /metrics HT");
  EXPECT_THAT(get(port_of(*page)), HasSubstr("\none 1\n"));
  const std::string rest = "TP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL), static_cast<ssize_t>(rest.size()));
  EXPECT_THAT(answer_on(fd), AllOf(HasSubstr("200 OK"), HasSubstr("\none 1\n")));
}

TEST(Metrics, OtherRequestsAreRefused) {
  const auto page = page_of_one();
  EXPECT_THAT(answer_on(ask(port_of(*page), "GET / HTTP/1.1\r\n\r\n")), HasSubstr("404 Not Found"));
  EXPECT_THAT(answer_on(ask(port_of(*page), "POST /metrics HTTP/1.1\r\n\r\n")),
              HasSubstr("405 Method Not Allowed"));
  EXPECT_THAT(answer_on(ask(port_of(*page), "nonsense\r\n\r\n")), HasSubstr("400 Bad Request"));
  EXPECT_THAT(answer_on(ask(port_of(*page), std::string(9216, 'x'))),
              HasSubstr("431 Request Header Fields Too Large"));
}

TEST(Metrics, LabelsOfHostileNamesStayInTheirLine) {
  const Metric metric{
      "m", "Help.", Metric::Kind::kCounter, {{{{"replica", "a\"\n\x1b\xff\xe2\x80\xae\\"}}, 2.5}}};
  EXPECT_EQ(
      exposition({metric}),
      "# HELP m Help.\n# TYPE m "
      "counter\nm{replica=\"a\\\"\\\\x0a\\\\x1b\\\\xff\\\\xe2\\\\x80\\\\xae\\\\\\\\\"} 2.5\n");
}

TEST(Metrics, AreServedByPublishAndSubscribe) {
  test::TempFolder folder;
  const std::string file = folder / "1.safetensors";
  test::write_model(file, test::small_model());
  test::BackgroundProgram publisher(
      {"publish", file, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"});
  const std::string address = publisher.address();
  ASSERT_TRUE(publisher.says("metrics at http://127.0.0.1:")) << publisher.err();
  test::BackgroundProgram subscriber(
      {"subscribe", address, "--out", folder / "out", "--metrics", "127.0.0.1:0"});
  ASSERT_FALSE(subscriber.version(1).is_null()) << subscriber.err();
  EXPECT_THAT(get(port_of_page(subscriber)),
              AllOf(HasSubstr("200 OK"), HasSubstr("\nsparcl_subscriber_version 1\n"),
                    HasSubstr("\nsparcl_subscriber_swaps_total 1\n"),
                    HasSubstr("\nsparcl_subscriber_trouble{code=\"sparclSuccess\"} 0\n")));
  std::string page;
  for (int i = 0; i < 400 && page.find("state=\"current\"") == std::string::npos; ++i) {
    page = get(port_of_page(publisher));
    usleep(20'000);
  }
  EXPECT_THAT(page, AllOf(HasSubstr("\nsparcl_publisher_version 1\n"),
                          HasSubstr("\nsparcl_publisher_replicas 1\n"),
                          HasSubstr("sparcl_replica_lag_versions{replica=\"replica\",host=\""),
                          HasSubstr("state=\"current\"} 1\n")));
  EXPECT_EQ(subscriber.end_by(SIGTERM), 0);
  EXPECT_EQ(publisher.end_by(SIGTERM), 0);
}

TEST(Metrics, AFollowerOfAStoreHasThem) {
  test::TempFolder folder;
  const std::string file = folder / "1.safetensors", url = "file:" + (folder / "store");
  test::write_model(file, test::small_model());
  ASSERT_EQ(test::run_program({"publish", file, "--store", url}).exit_code, 0);
  test::BackgroundProgram follower(
      {"subscribe", url, "--out", folder / "out", "--metrics", "127.0.0.1:0", "--poll", "0.05"});
  ASSERT_FALSE(follower.version(1).is_null()) << follower.err();
  EXPECT_THAT(get(port_of_page(follower)),
              AllOf(HasSubstr("200 OK"), HasSubstr("\nsparcl_follower_file_version 1\n"),
                    HasSubstr("\nsparcl_follower_newest_version 1\n"),
                    HasSubstr("\nsparcl_follower_anchors_total 1\n"),
                    HasSubstr("\nsparcl_follower_failures_total 0\n")));
  EXPECT_EQ(follower.end_by(SIGTERM), 0);
  const test::ProgramRun refused =
      test::run_program({"subscribe", url, "--out", folder / "out", "--insecure"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--insecure"));
}

TEST(Metrics, APortThatAnotherHasIsToldSo) {
  test::TempFolder folder;
  const std::string file = folder / "1.safetensors";
  test::write_model(file, test::small_model());
  test::BackgroundProgram first(
      {"publish", file, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"});
  ASSERT_TRUE(first.says("metrics at http://127.0.0.1:")) << first.err();
  const std::string taken = fmt::format("127.0.0.1:{}", port_of_page(first));
  test::BackgroundProgram second({"publish", file, "--listen", "127.0.0.1:0", "--metrics", taken});
  EXPECT_NE(second.exit_code(), 0);
  EXPECT_THAT(second.err(),
              AllOf(HasSubstr("--metrics " + taken), HasSubstr("another program may have it")));
}

}  // namespace
}  // namespace sparcl::tool
