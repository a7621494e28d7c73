// Options of a publisher and a subscriber: relays, and who may connect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sparcl/sparcl.hpp"
#include "tests/model/model_support.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::test {
namespace {

// Sockets of this process that others may connect to.
int listening_sockets() {
  int found = 0;
  for (int fd = 0; fd < ::getdtablesize() && fd < 4096; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0) found += listens;
  }
  return found;
}

// A replica that passes updates on has a port of its own.
bool has_own_port(sparclToggle_t relay) {
  std::vector<float> source(1'000, 1.0f), held(1'000);
  State state, copy;
  state.add("w", source, {1'000});
  copy.add("w", held, {1'000});
  Publisher publisher(state, {.listen = "127.0.0.1:0"});
  publisher.publish(1);
  const int before = listening_sockets();
  Subscriber::Options options;
  options.relay = relay;
  Subscriber subscriber(copy, publisher.address(), options);
  EXPECT_EQ(subscriber.next(20), 1u) << subscriber.reason();
  EXPECT_EQ(held, source);
  return listening_sockets() > before;
}

TEST(SubscriberOptions, RelayCountsBeforeTheSetting) {
  EXPECT_TRUE(has_own_port(sparclDefault));
  EXPECT_FALSE(has_own_port(sparclOff));
  setenv("SPARCL_RELAY", "off", 1);
  EXPECT_FALSE(has_own_port(sparclDefault));
  EXPECT_TRUE(has_own_port(sparclOn));
  unsetenv("SPARCL_RELAY");
}

// Files as sparcl secret makes them.
struct Secrets {
  explicit Secrets(const char* publish, const char* replicate) {
    for (const auto& [path, line] :
         {std::pair(of_publisher(), publish), {of_replicas(), replicate}}) {
      write_text(path, line);
      ::chmod(path.c_str(), 0600);
    }
  }
  std::string of_publisher() const { return folder / "run"; }
  std::string of_replicas() const { return folder / "run.replicate"; }
  TempFolder folder;
};
constexpr const char* kPublish =
    "sparcl-join-publish AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n";
constexpr const char* kReplicate =
    "sparcl-join-replicate nOJ6//W42hyVjX5tzIN3OA9Hz6Xl1LbfgP8FUzV5R9c= "
    "8bt+TlT39e70EKLiDHbYVHvSVnZl9L0yw5JqLLzN4ZE=\n";
constexpr const char* kPublishOther =
    "sparcl-join-publish AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n";
constexpr const char* kReplicateOther =
    "sparcl-join-replicate M/0C9MfdmO7BiJO/U7ufWMKUEkEbsth6HnMJFyg83dk= "
    "LYpsmqUZ7EpNG3htyrsCJDmTbykoqIO9qWBJrJ0q4oc=\n";

std::string failure_of_next(Subscriber& subscriber) {
  try {
    subscriber.next(0.3);
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclRemoteError);
    return error.what();
  }
}

TEST(PublisherOptions, ASecretOpensItToHoldersAlone) {
  const Secrets secrets(kPublish, kReplicate), others(kPublishOther, kReplicateOther);
  std::vector<float> source(100'000, 1.0f), held(100'000);
  State state, copy;
  state.add("w", source, {100'000});
  copy.add("w", held, {100'000});
  Publisher publisher(state, {.listen = "0.0.0.0:0", .secret_path = secrets.of_publisher()});
  publisher.publish(1);
  {
    Subscriber stranger(copy, publisher.address());
    EXPECT_THAT(failure_of_next(stranger), testing::HasSubstr("secret_path"));
  }
  {
    Subscriber other(copy, publisher.address(), {.secret_path = others.of_replicas()});
    EXPECT_THAT(failure_of_next(other), testing::HasSubstr("another secret"));
  }
  Subscriber::Options options;
  options.record_path = secrets.folder / "record";  // no trusted keys beside the secret's
  options.secret_path = secrets.of_replicas();
  Subscriber subscriber(copy, publisher.address(), options);
  for (std::uint64_t version = 1; version <= 4; ++version) {
    EXPECT_EQ(subscriber.next(20), version) << subscriber.reason();
    EXPECT_EQ(held, source);
    source[version] = 2.0f;
    publisher.publish(version + 1);
  }
  EXPECT_TRUE(fs::exists(options.record_path));
}

// A file that all publishers of a model use: the later one has taken over.
TEST(PublisherOptions, AWitnessLetsOnePublisherPublish) {
  const TempFolder folder;
  std::vector<float> source(1'000, 1.0f);
  State state, other;
  state.add("w", source, {1'000});
  other.add("w", source, {1'000});
  const Publisher::Options options{.witness_path = folder / "witness"};
  Publisher first(state, options);
  first.publish(1);
  Publisher second(other, options);
  second.publish(1);
  EXPECT_EQ(sparclPublish(first.get(), 2), sparclInvalidUsage);
  EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("has taken over in term 2"));
  second.publish(2);
}

TEST(SubscriberOptions, AnAgeAndAThresholdAreCheckedAndHeld) {
  const Secrets secrets(kPublish, kReplicate);
  std::vector<float> source(1'000, 1.0f), held(1'000);
  State state, copy;
  state.add("w", source, {1'000});
  copy.add("w", held, {1'000});
  auto publisher =
      std::make_unique<Publisher>(state, Publisher::Options{.secret_path = secrets.of_publisher()});
  publisher->publish(1);
  sparclSubscriberOptions_t wrong = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  sparclSubscriber_t none = nullptr;
  for (const double age : {-1.0, std::nan("")}) {
    wrong.max_age_s = age;
    EXPECT_EQ(sparclSubscriberCreate(&none, copy.get(), publisher->address().c_str(), &wrong),
              sparclInvalidArgument);
    EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("options.max_age_s"));
  }
  wrong.max_age_s = 1;  // and nothing shows who the publisher is
  EXPECT_EQ(sparclSubscriberCreate(&none, copy.get(), publisher->address().c_str(), &wrong),
            sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("options.trust_path"));
  wrong.max_age_s = 0;
  wrong.trust_threshold = 2;
  EXPECT_EQ(sparclSubscriberCreate(&none, copy.get(), publisher->address().c_str(), &wrong),
            sparclInvalidArgument);
  EXPECT_THAT(sparclGetLastError(nullptr), testing::HasSubstr("options.trust_threshold"));

  Subscriber subscriber(copy, publisher->address(),
                        {.secret_path = secrets.of_replicas(), .max_age_s = 1});
  EXPECT_EQ(subscriber.next(20), 1u) << subscriber.reason();
  EXPECT_EQ(subscriber.next(2.5), std::nullopt) << "its publisher answers: nothing is stale";
  publisher.reset();
  const auto begin = std::chrono::steady_clock::now();
  sparclResult_t result = sparclSuccess;
  while (result != sparclStale &&
         std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
    result = sparclSubscriberNext(subscriber.get(), 5, nullptr);
  EXPECT_EQ(result, sparclStale);
  EXPECT_THAT(sparclGetLastError(nullptr),
              testing::HasSubstr("version 1 was not known to be the newest"));
  EXPECT_EQ(held, source);
}

TEST(PublisherOptions, TheSettingNamesTheSecretOfBothSides) {
  const Secrets secrets(kPublish, kReplicate);
  std::vector<float> source(1'000, 1.0f), held(1'000);
  State state, copy;
  state.add("w", source, {1'000});
  copy.add("w", held, {1'000});
  setenv("SPARCL_SECRET", secrets.of_publisher().c_str(), 1);
  Publisher publisher(state, {.listen = ":0"});
  publisher.publish(1);
  Subscriber subscriber(copy, publisher.address());
  EXPECT_EQ(subscriber.next(20), 1u) << subscriber.reason();
  unsetenv("SPARCL_SECRET");
}

sparclResult_t result_of_own_publisher() {
  std::vector<float> source(1'000, 1.0f);
  State state;
  state.add("w", source, {1'000});
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = ":0";
  sparclPublisher_t publisher = nullptr;
  return sparclPublisherCreate(&publisher, state.get(), &options);
}

TEST(PublisherOptions, CertificatesOpenItToTheirHoldersAlone) {
  const TempFolder folder;
  const TestAuthority authority;
  authority.write(folder / "publish", "publish");
  authority.write(folder / "replicate", "replicate");
  TestAuthority("another authority").write(folder / "other", "replicate");
  std::vector<float> source(100'000, 1.0f), held(100'000);
  State state, copy;
  state.add("w", source, {100'000});
  copy.add("w", held, {100'000});
  Publisher publisher(state, {.listen = "0.0.0.0:0", .certificates_path = folder / "publish"});
  publisher.publish(1);
  {
    Subscriber plain(copy, publisher.address());
    EXPECT_THAT(failure_of_next(plain), testing::HasSubstr("certificates_path"));
  }
  {
    Subscriber other(copy, publisher.address(), {.certificates_path = folder / "other"});
    EXPECT_THAT(failure_of_next(other), testing::HasSubstr("is not of an authority in"));
  }
  {
    Subscriber subscriber(copy, publisher.address(), {.certificates_path = folder / "replicate"});
    EXPECT_EQ(subscriber.next(20), 1u);
    EXPECT_EQ(held, source);
  }
  setenv("SPARCL_CERTIFICATES", (folder / "replicate").c_str(), 1);
  EXPECT_EQ(result_of_own_publisher(), sparclUnauthorized);  // role replicate is too weak
  Subscriber by_setting(copy, publisher.address());
  unsetenv("SPARCL_CERTIFICATES");
  EXPECT_EQ(by_setting.next(20), 1u);
  State other;
  other.add("w", held, {100'000});
  try {
    const Publisher both(other, {.secret_path = folder / "x", .certificates_path = folder / "y"});
    ADD_FAILURE() << both.address();
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclInvalidArgument);
    EXPECT_THAT(error.what(), testing::HasSubstr("options.certificates_path"));
  }
}

TEST(PublisherOptions, OtherMachinesReachItWithASecretOrByTheUsersWord) {
  std::vector<float> source(1'000, 1.0f);
  State state;
  state.add("w", source, {1'000});
  EXPECT_THAT(Publisher(state).address(), testing::StartsWith("127.0.0.1:"));
  try {
    const Publisher publisher(state, {.listen = ":0"});
    ADD_FAILURE() << publisher.address();
  } catch (const Error& error) {
    EXPECT_EQ(error.result(), sparclInvalidArgument);
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("options.secret_path"),
                                             testing::HasSubstr("options.insecure")));
  }
  EXPECT_NO_THROW(Publisher(state, {.listen = ":0", .insecure = true}));
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  sparclPublisher_t publisher = nullptr;
  options.secret_path = "";
  EXPECT_EQ(sparclPublisherCreate(&publisher, state.get(), &options), sparclInvalidArgument);
  options.secret_path = nullptr;
  options.certificates_path = "";
  EXPECT_EQ(sparclPublisherCreate(&publisher, state.get(), &options), sparclInvalidArgument);
  options.certificates_path = nullptr;
  options.insecure = static_cast<sparclToggle_t>(9);
  EXPECT_EQ(sparclPublisherCreate(&publisher, state.get(), &options), sparclInvalidArgument);
}

}  // namespace
}  // namespace sparcl::test
