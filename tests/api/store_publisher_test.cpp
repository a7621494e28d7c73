// A publisher that also writes to a store, and stores whose versions are signed.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sparcl/sparcl.h"
#include "tests/api/stored_model.hpp"

namespace {

namespace fs = std::filesystem;

using sparcl::test::StoredModel;

// RFC 8032, 7.1, tests 1 and 2.
constexpr const char* kKey = "sparcl-ed25519-secret nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n";
constexpr const char* kPublicKey = "sparcl-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n";
constexpr const char* kOtherPublicKey =
    "sparcl-ed25519 PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n";

void remove_signatures(const std::string& path) {
  std::ifstream in(path);
  nlohmann::json record = nlohmann::json::parse(in);
  ASSERT_EQ(record.erase("signatures"), 1u);
  std::ofstream(path) << record.dump();
}

class StorePublisher : public sparcl::test::StoreApiTest {
 protected:
  std::string write_key(const std::string& name, const char* line) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << line;
    fs::permissions(path, fs::perms(0600));
    return path;
  }
  sparclPublisher_t publisher(const StoredModel& model, sparclStore_t store) const {
    sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    options.store = store;
    sparclPublisher_t made = nullptr;
    EXPECT_EQ(sparclPublisherCreate(&made, model.state(), &options), sparclSuccess) << error();
    return made;
  }
  void expect_newest(const StoredModel& model, std::uint64_t version) const {
    StoredModel restored;
    std::uint64_t got = 0;
    const sparclStore_t reader = open();
    ASSERT_EQ(sparclStoreRestore(reader, restored.state(), 0, &got), sparclSuccess) << error();
    EXPECT_EQ(got, version);
    EXPECT_TRUE(restored == model);
    EXPECT_EQ(sparclStoreVerify(reader, nullptr, nullptr, nullptr), sparclSuccess) << error();
    EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);
  }
  sparclStoreOptions_t named() const {
    sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
    options.anchor_every = 4;
    options.model_id = "policy";
    return options;
  }
  sparclStore_t open_with(const sparclStoreOptions_t& options) const {
    sparclStore_t store = nullptr;
    EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclSuccess) << error();
    return store;
  }
};

TEST_F(StorePublisher, ItsVersionsAreInItsStoreAndGoOnAfterARestart) {
  StoredModel trained;
  const sparclStore_t store = open();
  sparclPublisher_t own = publisher(trained, store);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess) << "the publisher does not need the handle";
  for (std::uint64_t version = 1; version <= 20; ++version) {
    if (version != 7) trained.train(version);  // one version changes nothing
    ASSERT_EQ(sparclPublish(own, version), sparclSuccess) << error();
  }
  ASSERT_EQ(sparclPublisherWaitStored(own, 20, 60), sparclSuccess) << error();
  expect_newest(trained, 20);
  EXPECT_EQ(sparclPublisherWaitStored(own, 21, 0), sparclTimeout) << error();
  ASSERT_EQ(sparclPublisherDestroy(own), sparclSuccess);

  const sparclStore_t again = open();
  own = publisher(trained, again);
  trained.train(30);
  EXPECT_EQ(sparclPublish(own, 20), sparclInvalidArgument);
  EXPECT_NE(error().find("version 20, the newest of the store"), std::string::npos) << error();
  ASSERT_EQ(sparclPublish(own, 21), sparclSuccess) << error();
  ASSERT_EQ(sparclPublisherDestroy(own), sparclSuccess) << "it writes what waits";
  expect_newest(trained, 21);
  std::uint64_t anchors = 0;
  const auto count = [](const sparclStoreVersion_t* each, void* arg) {
    *static_cast<std::uint64_t*>(arg) += each->anchor_bytes > 0 ? 1 : 0;
  };
  ASSERT_EQ(sparclStoreList(again, count, &anchors), sparclSuccess) << error();
  EXPECT_LE(anchors, 6u) << "each version but the first is a delta, also the one after the restart";
  EXPECT_EQ(sparclStoreClose(again), sparclSuccess);
}

TEST_F(StorePublisher, AStoreThatFailsIsNamedAndCatchesUp) {
  if (sparcl::test::is_over_s3()) GTEST_SKIP() << "the folder of a store is taken away";
  StoredModel trained;
  const sparclStore_t store = open();
  const sparclPublisher_t own = publisher(trained, store);
  ASSERT_EQ(sparclPublish(own, 1), sparclSuccess) << error();
  ASSERT_EQ(sparclPublisherWaitStored(own, 1, 60), sparclSuccess) << error();
  const std::string path = folder_ + "/a/store";
  fs::rename(path, path + ".away");
  std::ofstream(path) << "no folder";
  trained.train(2);
  ASSERT_EQ(sparclPublish(own, 2), sparclSuccess) << "replicas get it: " << error();
  EXPECT_EQ(sparclPublisherWaitStored(own, 2, 60), sparclSystemError);
  EXPECT_NE(error().find(path), std::string::npos) << error();
  EXPECT_NE(error().find("version 2 is not there"), std::string::npos) << error();
  fs::remove(path);
  fs::rename(path + ".away", path);
  trained.train(3);
  ASSERT_EQ(sparclPublish(own, 3), sparclSuccess) << error();
  EXPECT_EQ(sparclPublisherWaitStored(own, 3, 60), sparclSuccess) << error();
  expect_newest(trained, 3);
  ASSERT_EQ(sparclPublisherDestroy(own), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);
}

TEST_F(StorePublisher, AnotherWriterStopsItAndBadArgumentsAreNamed) {
  StoredModel trained, other;
  const sparclStore_t store = open(), rival = open();
  const sparclPublisher_t own = publisher(trained, store);
  other.train(7);
  ASSERT_EQ(sparclStorePublish(rival, other.state(), 1), sparclSuccess) << error();
  ASSERT_EQ(sparclPublish(own, 1), sparclSuccess) << error();
  EXPECT_EQ(sparclPublisherWaitStored(own, 1, 60), sparclStale) << error();
  ASSERT_EQ(sparclPublish(own, 2), sparclSuccess) << error();
  EXPECT_EQ(sparclPublisherWaitStored(own, 2, 60), sparclStale) << "it stays stopped";
  expect_newest(other, 1);
  EXPECT_EQ(sparclPublisherDestroy(own), sparclSuccess);

  StoredModel alone;
  sparclPublisher_t without = nullptr;
  ASSERT_EQ(sparclPublisherCreate(&without, alone.state(), nullptr), sparclSuccess) << error();
  EXPECT_EQ(sparclPublisherWaitStored(without, 1, 0), sparclInvalidUsage);
  EXPECT_EQ(sparclPublisherWaitStored(nullptr, 1, 0), sparclInvalidArgument);
  EXPECT_EQ(sparclPublisherDestroy(without), sparclSuccess);
  StoredModel small(1000);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.store = store;
  EXPECT_EQ(sparclPublisherCreate(&without, small.state(), &options), sparclMismatch) << error();
  for (const sparclStore_t each : {store, rival}) EXPECT_EQ(sparclStoreClose(each), sparclSuccess);
}

// The subscriber's tensors, or those that it shows beside them.
class StoreFallback : public StorePublisher, public testing::WithParamInterface<sparclToggle_t> {
 protected:
  sparclSubscriber_t subscriber(const StoredModel& model, const std::string& address,
                                sparclStore_t store) const {
    sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    options.store = store;
    options.double_buffer = GetParam();
    sparclSubscriber_t made = nullptr;
    EXPECT_EQ(sparclSubscriberCreate(&made, model.state(), address.c_str(), &options),
              sparclSuccess)
        << error();
    return made;
  }
  static std::uint64_t next(sparclSubscriber_t subscriber) {
    std::uint64_t version = 0;
    EXPECT_EQ(sparclSubscriberNext(subscriber, 30, &version), sparclSuccess) << error();
    return version;
  }
  static void expect_shown(sparclSubscriber_t subscriber, const StoredModel& model) {
    const void* shown = nullptr;
    ASSERT_EQ(sparclSubscriberTensor(subscriber, 0, &shown), sparclSuccess) << error();
    EXPECT_TRUE(model.has_weights(shown));
  }
};

TEST_P(StoreFallback, VersionsComeFromTheStoreWhileThePublisherIsAway) {
  StoredModel trained, held;
  const sparclStore_t store = open();
  sparclPublisher_t own = publisher(trained, store);
  char address[64];
  ASSERT_EQ(sparclPublisherAddress(own, address, sizeof address), sparclSuccess);
  ASSERT_EQ(sparclPublish(own, 1), sparclSuccess) << error();
  ASSERT_EQ(sparclPublisherWaitStored(own, 1, 60), sparclSuccess) << error();
  const sparclSubscriber_t replica = subscriber(held, address, store);
  EXPECT_EQ(next(replica), 1u);
  ASSERT_EQ(sparclPublisherDestroy(own), sparclSuccess);

  for (std::uint64_t version = 2; version <= 3; ++version) {  // of another process, say
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
    EXPECT_EQ(next(replica), version);
    expect_shown(replica, trained);
  }
  ASSERT_EQ(sparclStoreClose(store), sparclSuccess) << error();

  const sparclStore_t again = open();
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = address;
  options.store = again;
  ASSERT_EQ(sparclPublisherCreate(&own, trained.state(), &options), sparclSuccess) << error();
  for (std::uint64_t version = 4; version <= 5; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclPublish(own, version), sparclSuccess) << error();
    std::uint64_t got = next(replica);
    if (got < version) got = next(replica);  // the store's version 4 may have come first
    EXPECT_EQ(got, version);
    expect_shown(replica, trained);
  }
  EXPECT_EQ(sparclPublisherWait(own, 5, 1, 30), sparclSuccess) << error();
  EXPECT_EQ(sparclSubscriberDestroy(replica), sparclSuccess);
  EXPECT_EQ(sparclPublisherDestroy(own), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(again), sparclSuccess);
}

TEST_P(StoreFallback, NoPublisherNeedsToBeThere) {
  StoredModel trained, held;
  const sparclStore_t store = open(), reader = open();
  const sparclSubscriber_t replica = subscriber(held, "127.0.0.1:1", reader);
  EXPECT_EQ(sparclSubscriberNext(replica, 1.5, nullptr), sparclRemoteError) << "it is empty";
  ASSERT_EQ(sparclStorePublish(store, trained.state(), 7), sparclSuccess) << error();
  EXPECT_EQ(next(replica), 7u);
  expect_shown(replica, trained);
  EXPECT_EQ(sparclSubscriberNext(replica, 1.5, nullptr), sparclRemoteError) << "nothing is newer";
  EXPECT_EQ(sparclSubscriberDestroy(replica), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);

  // What the subscriber would not take from the publisher it does not take from a store.
  const std::string trusted = write_key("key.pub", kPublicKey);
  sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
  options.store = reader;
  options.trust_path = trusted.c_str();
  options.model_id = "policy";
  sparclSubscriber_t careful = nullptr;
  EXPECT_EQ(sparclSubscriberCreate(&careful, held.state(), "127.0.0.1:1", &options),
            sparclInvalidArgument);
  EXPECT_NE(error().find("trust_path and model_id"), std::string::npos) << error();
  sparclStoreOptions_t other = named();
  other.model_id = "critic";
  other.trust_path = trusted.c_str();
  const sparclStore_t of_other = open_with(other);
  options.store = of_other;
  EXPECT_EQ(sparclSubscriberCreate(&careful, held.state(), "127.0.0.1:1", &options),
            sparclInvalidArgument);
  EXPECT_NE(error().find("another model_id"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreClose(of_other), sparclSuccess);
  EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);
}

INSTANTIATE_TEST_SUITE_P(Buffers, StoreFallback, testing::Values(sparclOff, sparclOn));

TEST_F(StorePublisher, ReadersWithTrustedKeysRefuseWhatTheseHaveNotSigned) {
  StoredModel trained, follower;
  const std::string key = write_key("key", kKey), trusted = write_key("key.pub", kPublicKey),
                    strangers = write_key("other.pub", kOtherPublicKey);
  sparclStoreOptions_t options = named();
  options.key_path = key.c_str();
  const sparclStore_t store = open_with(options);
  for (std::uint64_t version = 1; version <= 17; ++version) {
    trained.train(version);
    ASSERT_EQ(sparclStorePublish(store, trained.state(), version), sparclSuccess) << error();
  }
  EXPECT_EQ(sparclStoreClose(store), sparclSuccess);

  options = named();
  options.trust_path = trusted.c_str();
  const sparclStore_t reader = open_with(options);
  ASSERT_EQ(sparclStoreRestore(reader, follower.state(), 0, nullptr), sparclSuccess) << error();
  EXPECT_TRUE(follower == trained);
  EXPECT_EQ(sparclStoreClose(reader), sparclSuccess);

  options.trust_path = strangers.c_str();
  const sparclStore_t other = open_with(options);
  StoredModel empty;
  EXPECT_EQ(sparclStoreRestore(other, empty.state(), 0, nullptr), sparclUnauthorized) << error();
  EXPECT_NE(error().find("commits/"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreClose(other), sparclSuccess);

  options = named();
  options.model_id = "critic";
  const sparclStore_t wrong = open_with(options);
  EXPECT_EQ(sparclStoreRestore(wrong, empty.state(), 0, nullptr), sparclMismatch) << error();
  EXPECT_NE(error().find("policy"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreClose(wrong), sparclSuccess);

  // A writer without the key would lock these readers out.
  const sparclStore_t unsigned_writer = open_with(named());
  StoredModel forged;
  EXPECT_EQ(sparclStorePublish(unsigned_writer, forged.state(), 18), sparclUnauthorized);
  EXPECT_NE(error().find("version 17 of the store is signed"), std::string::npos) << error();
  EXPECT_EQ(sparclStoreClose(unsigned_writer), sparclSuccess);

  // A record that lost its signatures is refused, and what is held stays.
  options = named();
  options.key_path = key.c_str();
  const sparclStore_t next = open_with(options);
  ASSERT_EQ(sparclStorePublish(next, forged.state(), 18), sparclSuccess) << error();
  EXPECT_EQ(sparclStoreClose(next), sparclSuccess);
  remove_signatures(folder_ + "/a/store/commits/00000000000000000018");
  options = named();
  options.trust_path = trusted.c_str();
  const sparclStore_t careful = open_with(options);
  EXPECT_EQ(sparclStoreRestore(careful, follower.state(), 0, nullptr), sparclUnauthorized);
  EXPECT_NE(error().find("it is not signed"), std::string::npos) << error();
  EXPECT_TRUE(follower == trained);
  EXPECT_EQ(sparclStoreClose(careful), sparclSuccess);
}

TEST_F(StorePublisher, OptionsOfKeysThatMeanNothingAreRefused) {
  const std::string trusted = write_key("key.pub", kPublicKey);
  sparclStore_t store = nullptr;
  sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
  options.trust_path = trusted.c_str();
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclInvalidArgument);
  EXPECT_NE(error().find("model_id"), std::string::npos) << error();
  options = named();
  options.trust_threshold = 2;
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclInvalidArgument);
  options.trust_path = trusted.c_str();
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclInvalidArgument)
      << "one key cannot sign twice";
  options = named();
  options.key_path = "";
  EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), &options), sparclInvalidArgument);
  options.key_path = trusted.c_str();
  EXPECT_NE(sparclStoreOpen(&store, url().c_str(), &options), sparclSuccess) << "a public key";
}

}  // namespace
