// A publisher and its replicas through the C interface, in one process: each has tensors, and
// threads, of its own.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sparcl/sparcl.h"
#include "sparcl/sparcl.hpp"

namespace {

using Hash = std::array<std::uint8_t, 16>;

// Two tensors of some blocks each, and one of a few elements.
class Model {
 public:
  explicit Model(std::uint64_t elements = 300'000, std::uint16_t fill = 0)
      : weights_(elements, fill), bias_(1000), scale_(3) {
    EXPECT_EQ(sparclStateCreate(&state_), sparclSuccess);
    const std::uint64_t shape[2] = {elements / 100, 100}, few[1] = {1000}, three[1] = {3};
    EXPECT_EQ(sparclStateAdd(state_, "weights", weights_.data(), sparclBfloat16, 2, shape),
              sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "bias", bias_.data(), sparclFloat32, 1, few), sparclSuccess);
    EXPECT_EQ(sparclStateAdd(state_, "scale", scale_.data(), sparclInt64, 1, three), sparclSuccess);
  }
  ~Model() { EXPECT_EQ(sparclStateDestroy(state_), sparclSuccess) << sparclGetLastError(nullptr); }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  sparclState_t state() const { return state_; }
  Hash hash() const {
    Hash hash{};
    EXPECT_EQ(sparclStateHash(state_, hash.data()), sparclSuccess);
    return hash;
  }
  void randomise(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint16_t& each : weights_) each = static_cast<std::uint16_t>(random());
  }
  void step(std::uint64_t seed, double density = 0.01) {
    std::mt19937_64 random(seed);
    const auto changes = static_cast<std::uint64_t>(density * static_cast<double>(weights_.size()));
    for (std::uint64_t i = 0; i < changes; ++i) ++weights_[random() % weights_.size()];
    bias_[random() % bias_.size()] += 1.0F;
    scale_[random() % 3] ^= 1;
  }
  const std::vector<std::uint16_t>& weights() const { return weights_; }
  bool same_as(const Model& other) const {
    return weights_ == other.weights_ && scale_ == other.scale_ &&
           std::memcmp(bias_.data(), other.bias_.data(), bias_.size() * sizeof(float)) == 0;
  }

 private:
  sparclState_t state_ = nullptr;
  std::vector<std::uint16_t> weights_;
  std::vector<float> bias_;
  std::vector<std::int64_t> scale_;
};

class Publisher {
 public:
  explicit Publisher(Model& model, const std::string& listen = "127.0.0.1:0",
                     const std::string& key = "", int queue = 0) {
    sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    options.listen = listen.c_str();
    options.model_id = "test";
    options.key_path = key.empty() ? nullptr : key.c_str();
    options.queue = queue;
    EXPECT_EQ(sparclPublisherCreate(&handle_, model.state(), &options), sparclSuccess)
        << sparclGetLastError(nullptr);
    char address[64];
    EXPECT_EQ(sparclPublisherAddress(handle_, address, sizeof address), sparclSuccess);
    address_ = address;
  }
  ~Publisher() { EXPECT_EQ(sparclPublisherDestroy(handle_), sparclSuccess); }
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  sparclPublisher_t get() const { return handle_; }
  const std::string& address() const { return address_; }
  void publish(std::uint64_t version) {
    ASSERT_EQ(sparclPublish(handle_, version), sparclSuccess) << sparclGetLastError(nullptr);
  }

 private:
  sparclPublisher_t handle_ = nullptr;
  std::string address_;
};

class Replica {
 public:
  explicit Replica(const std::string& address, const std::string& trust = "",
                   std::uint16_t fill = 7, const char* model_id = "test",
                   std::uint64_t elements = 300'000)
      : model(elements, fill) {
    sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    options.model_id = model_id;
    options.trust_path = trust.empty() ? nullptr : trust.c_str();
    options.on_swap = [](std::uint64_t version, void* arg) {
      static_cast<Replica*>(arg)->swapped.push_back(version);
    };
    options.arg = this;
    EXPECT_EQ(sparclSubscriberCreate(&handle_, model.state(), address.c_str(), &options),
              sparclSuccess)
        << sparclGetLastError(nullptr);
  }
  ~Replica() { EXPECT_EQ(sparclSubscriberDestroy(handle_), sparclSuccess); }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  sparclSubscriber_t get() const { return handle_; }
  sparclResult_t next(double seconds, std::uint64_t* version = nullptr) {
    return sparclSubscriberNext(handle_, seconds, version);
  }
  // Until it holds `version`.
  void follow(std::uint64_t version) {
    std::uint64_t held = 0;
    while (held < version) ASSERT_EQ(next(20, &held), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(held, version);
  }

  Model model;
  std::vector<std::uint64_t> swapped;

 private:
  sparclSubscriber_t handle_ = nullptr;
};

TEST(Replication, ReplicasFollowEveryVersion) {
  Model source;
  source.randomise(1);
  Publisher publisher(source);
  Replica first(publisher.address()), second(publisher.address());
  for (std::uint64_t version = 1; version <= 12; ++version) {
    publisher.publish(version);
    first.follow(version);
    second.follow(version);
    EXPECT_TRUE(first.model.same_as(source) && second.model.same_as(source)) << version;
    EXPECT_EQ(sparclPublisherWait(publisher.get(), version, 2, 20), sparclSuccess)
        << sparclGetLastError(nullptr);
    source.step(version, version % 4 == 3 ? 0.6 : 0.01);
  }
  EXPECT_EQ(first.swapped.size(), 12U);
  int connected = 0, holding = 0;
  EXPECT_EQ(sparclPublisherCount(publisher.get(), 12, &connected, &holding), sparclSuccess);
  EXPECT_EQ(connected, 2);
  EXPECT_EQ(holding, 2);
  std::uint64_t held = 0, newest = 0;
  EXPECT_EQ(sparclSubscriberVersion(first.get(), &held, &newest), sparclSuccess);
  EXPECT_EQ(held, 12U);
  EXPECT_EQ(newest, 12U);
}

TEST(Replication, TensorsMayChangeAtOnceAfterPublish) {
  Model source;
  Publisher publisher(source);
  Replica replica(publisher.address());
  std::map<std::uint64_t, Hash> published;
  for (std::uint64_t version = 1; version <= 40; ++version) {
    published[version] = source.hash();
    publisher.publish(version);
    source.step(version, 0.3);
  }
  std::uint64_t held = 0;
  while (held < 40) {
    ASSERT_EQ(replica.next(20, &held), sparclSuccess) << sparclGetLastError(nullptr);
    EXPECT_EQ(replica.model.hash(), published[held]) << held;
  }
}

TEST(Replication, ALateJoinerIsBroughtOn) {
  Model source;
  Publisher publisher(source);
  for (std::uint64_t version = 1; version <= 5; ++version) {
    source.step(version);
    publisher.publish(version);
  }
  Replica late(publisher.address());
  late.follow(5);
  EXPECT_TRUE(late.model.same_as(source));
  source.step(6);
  publisher.publish(6);
  Replica later(publisher.address());
  late.follow(6);
  later.follow(6);
  EXPECT_TRUE(late.model.same_as(source) && later.model.same_as(source));
}

TEST(Replication, AReplicaThatHoldsTheBytesLearnsTheirNumberOnly) {
  Model source(300'000, 7);  // as the replica begins
  Publisher publisher(source);
  publisher.publish(41);
  Replica replica(publisher.address());
  replica.follow(41);
  source.step(1);
  publisher.publish(42);
  replica.follow(42);
  EXPECT_TRUE(replica.model.same_as(source));
}

TEST(Replication, OneThatDoesNotComeToApplyHoldsNobodyUp) {
  Model source;
  Publisher publisher(source);
  Replica idle(publisher.address()), busy(publisher.address());
  for (std::uint64_t version = 1; version <= 100; ++version) {
    source.step(version);
    publisher.publish(version);
    if (version % 10 == 0) busy.follow(version);
  }
  EXPECT_TRUE(busy.model.same_as(source));
  idle.follow(100);  // whatever has been dropped meanwhile
  EXPECT_TRUE(idle.model.same_as(source));
}

// What a replica held counts although it ends right after it has shown it.
TEST(Replication, AReplicaThatEndsAtOnceCounts) {
  Model trained(1000), served(1000);
  sparclPublisher_t publisher = nullptr;
  ASSERT_EQ(sparclPublisherCreate(&publisher, trained.state(), nullptr), sparclSuccess);
  char address[64];
  ASSERT_EQ(sparclPublisherAddress(publisher, address, sizeof address), sparclSuccess);
  for (std::uint64_t version = 1; version <= 60; ++version) {
    ASSERT_EQ(sparclPublish(publisher, version), sparclSuccess);
    sparclSubscriber_t reader = nullptr;
    ASSERT_EQ(sparclSubscriberCreate(&reader, served.state(), address, nullptr), sparclSuccess);
    ASSERT_EQ(sparclSubscriberNext(reader, 30, nullptr), sparclSuccess);
    ASSERT_EQ(sparclSubscriberDestroy(reader), sparclSuccess);
    ASSERT_EQ(sparclPublisherWait(publisher, version, 1, 10), sparclSuccess) << version;
  }
  ASSERT_EQ(sparclPublisherDestroy(publisher), sparclSuccess);
}

TEST(Replication, APinnedReplicaStays) {
  Model source;
  Publisher publisher(source);
  Replica replica(publisher.address());
  publisher.publish(1);
  replica.follow(1);
  ASSERT_EQ(sparclSubscriberPin(replica.get(), 2), sparclSuccess);
  std::map<std::uint64_t, Hash> published;
  for (std::uint64_t version = 2; version <= 4; ++version) {
    source.step(version);
    published[version] = source.hash();
    publisher.publish(version);
  }
  replica.follow(2);
  EXPECT_EQ(replica.model.hash(), published[2]);
  EXPECT_EQ(replica.next(0.3), sparclTimeout);
  ASSERT_EQ(sparclSubscriberPin(replica.get(), 0), sparclSuccess);
  replica.follow(4);
  EXPECT_EQ(sparclSubscriberPin(replica.get(), 1), sparclInvalidUsage);  // it is too far back
  EXPECT_TRUE(replica.model.same_as(source));
}

TEST(Replication, AReplicaGoesBackToTheVersionBefore) {
  Model source;
  Publisher publisher(source);
  Replica replica(publisher.address());
  publisher.publish(1);
  replica.follow(1);
  const auto first = replica.model.hash();
  source.step(2);
  publisher.publish(2);
  replica.follow(2);
  EXPECT_NE(replica.model.hash(), first);
  ASSERT_EQ(sparclSubscriberPin(replica.get(), 1), sparclSuccess);
  std::uint64_t version = 0;
  ASSERT_EQ(replica.next(20, &version), sparclSuccess) << sparclGetLastError(nullptr);
  EXPECT_EQ(version, 1U);
  EXPECT_EQ(replica.model.hash(), first);
  EXPECT_EQ(replica.swapped, (std::vector<std::uint64_t>{1, 2, 1}));
  EXPECT_EQ(replica.next(0.1), sparclTimeout);
  ASSERT_EQ(sparclSubscriberPin(replica.get(), 0), sparclSuccess);
  replica.follow(2);
  EXPECT_EQ(replica.model.hash(), source.hash());
}

TEST(Replication, WithTwoBuffersTheVersionBeforeStays) {
  Model source;
  Publisher publisher(source);
  Model copy(300'000, 7);
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.double_buffer = sparclOn;
  options.model_id = "test";
  sparclSubscriber_t subscriber = nullptr;
  ASSERT_EQ(
      sparclSubscriberCreate(&subscriber, copy.state(), publisher.address().c_str(), &options),
      sparclSuccess)
      << sparclGetLastError(nullptr);
  constexpr std::size_t kBytes = 300'000 * 2;
  std::vector<std::byte> before(kBytes);
  for (std::uint64_t version = 1; version < 6; ++version) {
    const void *shown = nullptr, *next = nullptr;
    ASSERT_EQ(sparclSubscriberTensor(subscriber, 0, &shown), sparclSuccess);
    std::memcpy(before.data(), shown, kBytes);
    source.step(version);
    publisher.publish(version);
    std::uint64_t held = 0;
    while (held < version)
      ASSERT_EQ(sparclSubscriberNext(subscriber, 20, &held), sparclSuccess)
          << sparclGetLastError(nullptr);
    ASSERT_EQ(sparclSubscriberTensor(subscriber, 0, &next), sparclSuccess);
    EXPECT_NE(shown, next);
    EXPECT_EQ(std::memcmp(shown, before.data(), kBytes), 0);
    EXPECT_EQ(std::memcmp(next, source.weights().data(), kBytes), 0);
  }
  const void* nothing = nullptr;
  EXPECT_EQ(sparclSubscriberTensor(subscriber, 3, &nothing), sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("the state has 3"), std::string::npos)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(sparclSubscriberTensor(subscriber, 0, nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclSubscriberTensor(nullptr, 0, &nothing), sparclInvalidArgument);
  EXPECT_EQ(sparclSubscriberDestroy(subscriber), sparclSuccess);
}

TEST(Replication, ReplicasOutliveTheirPublisher) {
  Model source;
  Replica* replica = nullptr;
  std::string address;
  {
    Publisher publisher(source);
    address = publisher.address();
    replica = new Replica(address);
    publisher.publish(1);
    replica->follow(1);
    source.step(1);
    publisher.publish(2);
    replica->follow(2);
  }
  const Hash held = replica->model.hash();
  EXPECT_EQ(replica->next(0.3), sparclRemoteError);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find(address), std::string::npos)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(replica->model.hash(), held);
  {
    Publisher publisher(source, address);  // the next life, from the same bytes
    publisher.publish(2);
    source.step(2);
    publisher.publish(3);
    replica->follow(3);
    EXPECT_TRUE(replica->model.same_as(source));
  }
  delete replica;
}

TEST(Replication, APublisherComesAfterItsReplicas) {
  Model source;
  std::string address;
  { address = Publisher(source).address(); }
  Replica replica(address);
  EXPECT_EQ(replica.next(0.2), sparclRemoteError);
  Publisher publisher(source, address);
  source.step(1);
  publisher.publish(1);
  replica.follow(1);
  EXPECT_TRUE(replica.model.same_as(source));
}

TEST(Replication, AnotherModelIsRefused) {
  Model source;
  Publisher publisher(source);
  publisher.publish(1);
  Replica other_name(publisher.address(), "", 7, "other"),
      other_shape(publisher.address(), "", 7, "test", 200'000);
  for (Replica* each : {&other_name, &other_shape}) {
    const Hash before = each->model.hash();
    EXPECT_EQ(each->next(1e6), sparclMismatch)
        << "waiting would not help: " << sparclGetLastError(nullptr);
    EXPECT_EQ(each->next(1e6), sparclMismatch) << "the next try";
    EXPECT_EQ(each->model.hash(), before);
  }
}

TEST(Replication, OneThatSaysGoodbyeHasGivenItsAcknowledgement) {
  Model source;
  Publisher publisher(source);
  publisher.publish(1);
  {
    Replica replica(publisher.address());
    replica.follow(1);
  }
  EXPECT_EQ(sparclPublisherWait(publisher.get(), 1, 1, 20), sparclSuccess)
      << sparclGetLastError(nullptr);
  int connected = -1, holding = -1;
  for (int i = 0; i < 2'000 && connected != 0; ++i) {  // its goodbye comes after its word
    EXPECT_EQ(sparclPublisherCount(publisher.get(), 1, &connected, &holding), sparclSuccess);
    if (connected != 0) usleep(10'000);
  }
  EXPECT_EQ(connected, 0);
  EXPECT_EQ(holding, 0);
  EXPECT_EQ(sparclPublisherWait(publisher.get(), 1, 2, 0.05), sparclTimeout);
  source.step(1);
  publisher.publish(2);
  EXPECT_EQ(sparclPublisherWait(publisher.get(), 2, 1, 0.05), sparclTimeout)
      << "that is newer than what it held";
  Replica replica(publisher.address());  // of the same process: it has come back
  replica.follow(2);
  EXPECT_EQ(sparclPublisherWait(publisher.get(), 1, 1, 20), sparclSuccess);
  EXPECT_EQ(sparclPublisherWait(publisher.get(), 1, 2, 0.05), sparclTimeout);
}

// Its threads are not there, and its connections are its parent's.
TEST(Replication, AChildOfForkMayOnlyDestroyItsCopies) {
  Model source;
  Publisher publisher(source);
  Replica replica(publisher.address());
  publisher.publish(1);
  replica.follow(1);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    char address[64];
    std::uint64_t held = 0;
    sparclReport_t report = SPARCL_REPORT_INITIALIZER;
    const sparclResult_t results[] = {
        sparclPublish(publisher.get(), 2),
        sparclPublisherWait(publisher.get(), 1, 1, 1),
        sparclPublisherCount(publisher.get(), 1, nullptr, nullptr),
        sparclPublisherAddress(publisher.get(), address, sizeof address),
        sparclPublisherLastReport(publisher.get(), &report),
        sparclSubscriberNext(replica.get(), 1, nullptr),
        sparclSubscriberVersion(replica.get(), &held, nullptr),
        sparclSubscriberPin(replica.get(), 1)};
    for (const sparclResult_t result : results) {
      if (result != sparclInvalidUsage) ::_exit(1);
    }
    if (sparclSubscriberDestroy(replica.get()) != sparclSuccess ||
        sparclPublisherDestroy(publisher.get()) != sparclSuccess)
      ::_exit(2);
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  source.step(1);
  publisher.publish(2);
  replica.follow(2);
  EXPECT_TRUE(replica.model.same_as(source));
}

TEST(Replication, ByTheCppInterface) {
  std::vector<float> trained(5000), served(5000);
  sparcl::State source, copy;
  source.add("weights", std::span(trained), {5000});
  copy.add("weights", std::span(served), {5000});
  sparcl::Publisher publisher(source, {.listen = "127.0.0.1:0"});
  std::vector<std::uint64_t> swapped;
  sparcl::Subscriber subscriber(
      copy, publisher.address(),
      {.on_swap = [&](std::uint64_t version) { swapped.push_back(version); },
       .double_buffer = true});
  for (std::uint64_t version = 1; version <= 3; ++version) {
    trained[version] = 1.5F;
    publisher.publish(version);
    ASSERT_EQ(subscriber.next(20), version);
    EXPECT_EQ(std::memcmp(trained.data(), subscriber.tensor(0), trained.size() * sizeof(float)), 0);
    EXPECT_TRUE(publisher.wait(version, 1, 20));
  }
  EXPECT_EQ(swapped, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(publisher.replicas_holding(3), 1);
  EXPECT_EQ(subscriber.held(), 3U);
  EXPECT_EQ(subscriber.newest(), 3U);
  EXPECT_FALSE(publisher.wait(4, 1, 0.05));
  EXPECT_EQ(subscriber.next(0.05), std::nullopt);
  EXPECT_THROW(sparcl::Subscriber(copy, "nonsense"), sparcl::Error);
}

TEST(Replication, ThePublisherReportsItsLastUpdate) {
  std::vector<std::uint16_t> weights(100'000);
  sparcl::State state;
  state.add("weights", weights.data(), sparclBfloat16, {weights.size()});
  sparcl::Publisher publisher(state, {.listen = "127.0.0.1:0"});
  const sparcl::Report none = publisher.last_report();
  EXPECT_EQ(none.nnz_in + none.bytes_sent + none.bytes_dense, 0U);

  publisher.publish(1);
  const sparcl::Report first = publisher.last_report();
  EXPECT_EQ(first.nnz_in, weights.size());
  EXPECT_EQ(first.bytes_sent, 0U);
  EXPECT_EQ(first.bytes_dense, 200'000U);

  for (std::size_t i = 0; i < weights.size(); i += 1000) ++weights[i];
  publisher.publish(2);
  const sparcl::Report second = publisher.last_report();
  EXPECT_EQ(second.nnz_in, 100U);
  EXPECT_GT(second.bytes_sent, 100U);
  EXPECT_LT(second.bytes_sent, 2000U);
  EXPECT_EQ(second.bytes_dense, 200'000U);
  EXPECT_GT(second.seconds, 0);

  EXPECT_THROW(publisher.publish(2), sparcl::Error);  // the last that was published stays the last
  EXPECT_EQ(publisher.last_report().nnz_in, 100U);
}

TEST(Replication, BadArgumentsAreNamed) {
  Model source;
  sparclPublisher_t publisher = nullptr;
  sparclSubscriber_t subscriber = nullptr;
  const auto says = [](const char* text) {
    return std::string(sparclGetLastError(nullptr)).find(text) != std::string::npos;
  };
  EXPECT_EQ(sparclPublisherCreate(nullptr, source.state(), nullptr), sparclInvalidArgument);
  EXPECT_EQ(sparclPublisherCreate(&publisher, nullptr, nullptr), sparclInvalidArgument);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = "nonsense";
  EXPECT_EQ(sparclPublisherCreate(&publisher, source.state(), &options), sparclInvalidArgument);
  EXPECT_TRUE(says("nonsense")) << sparclGetLastError(nullptr);
  options.listen = "127.0.0.1:0";
  options.key_path = "/nowhere/key";
  EXPECT_NE(sparclPublisherCreate(&publisher, source.state(), &options), sparclSuccess);
  EXPECT_TRUE(says("/nowhere/key")) << sparclGetLastError(nullptr);
  options.key_path = "";  // an unset variable must not turn signatures off
  EXPECT_EQ(sparclPublisherCreate(&publisher, source.state(), &options), sparclInvalidArgument);
  EXPECT_TRUE(says("options.key_path")) << sparclGetLastError(nullptr);
  options.key_path = nullptr;
  const std::string long_id(5000, 'a');
  for (const char* id : {long_id.c_str(), "broken \xff", "two\nlines"}) {
    options.model_id = id;
    EXPECT_EQ(sparclPublisherCreate(&publisher, source.state(), &options), sparclInvalidArgument);
    EXPECT_TRUE(says("model id")) << sparclGetLastError(nullptr);
    sparclSubscriberOptions_t subscribing = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    subscribing.model_id = id;
    EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", &subscribing),
              sparclInvalidArgument);
  }
  options.model_id = nullptr;
  options.queue = std::uint64_t{1} << 40;
  EXPECT_EQ(sparclPublisherCreate(&publisher, source.state(), &options), sparclInvalidArgument);
  EXPECT_TRUE(says("options.queue = 1099511627776")) << sparclGetLastError(nullptr);
  sparclSubscriberOptions_t toggled = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  toggled.relay = static_cast<sparclToggle_t>(3);
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", &toggled),
            sparclInvalidArgument);
  EXPECT_TRUE(says("options.relay = 3 is no sparclToggle_t")) << sparclGetLastError(nullptr);
  sparclSubscriberOptions_t trusting = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  trusting.trust_path = "";
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", &trusting),
            sparclInvalidArgument);
  EXPECT_TRUE(says("options.trust_path")) << sparclGetLastError(nullptr);
  trusting.trust_path = "/nowhere/keys";
  for (const char* id : {static_cast<const char*>(nullptr), ""}) {
    trusting.model_id = id;
    EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", &trusting),
              sparclInvalidArgument);
    EXPECT_TRUE(says("without a model id")) << sparclGetLastError(nullptr);
  }
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), nullptr, nullptr),
            sparclInvalidArgument);
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "host:port", nullptr),
            sparclInvalidArgument);

  trusting.trust_path = nullptr;
  trusting.record_path = "/nowhere/record";
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", &trusting),
            sparclInvalidArgument);
  EXPECT_TRUE(says("without trusted keys")) << sparclGetLastError(nullptr);

  options.queue = 0;
  options.state_path = "/nowhere/state";  // a warning
  options.size =
      offsetof(sparclPublisherOptions_t,
               peer_bytes);  // of a program that was compiled before there was this field
  options.peer_bytes = 1;
  ASSERT_EQ(sparclPublisherCreate(&publisher, source.state(), &options), sparclSuccess)
      << sparclGetLastError(nullptr);
  EXPECT_EQ(sparclSubscriberCreate(&subscriber, source.state(), "127.0.0.1:1", nullptr),
            sparclInvalidUsage);
  EXPECT_EQ(sparclStateDestroy(source.state()), sparclInvalidUsage);
  char address[4];
  EXPECT_EQ(sparclPublisherAddress(publisher, address, sizeof address), sparclTruncated);
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  EXPECT_EQ(sparclPublisherLastReport(nullptr, &report), sparclInvalidArgument);
  EXPECT_EQ(sparclPublisherLastReport(publisher, nullptr), sparclInvalidArgument);
  report.size = 0;
  EXPECT_EQ(sparclPublisherLastReport(publisher, &report), sparclInvalidArgument);
  EXPECT_EQ(sparclPublish(publisher, 0), sparclInvalidArgument);
  EXPECT_EQ(sparclPublish(publisher, 3), sparclSuccess);
  EXPECT_EQ(sparclPublish(publisher, 3), sparclInvalidArgument);
  EXPECT_EQ(sparclPublish(publisher, 2), sparclInvalidArgument);
  EXPECT_EQ(sparclPublisherWait(publisher, 3, 1, 0.1), sparclTimeout);
  EXPECT_TRUE(says("0 of 1")) << sparclGetLastError(nullptr);
  EXPECT_EQ(sparclPublisherDestroy(publisher), sparclSuccess);
}

}  // namespace
