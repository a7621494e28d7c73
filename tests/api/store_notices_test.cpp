// Subscribers that a publisher only tells of versions, and whose bytes come from a store.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "sparcl/sparcl.h"
#include "tests/api/stored_model.hpp"

namespace {

namespace fs = std::filesystem;

using sparcl::test::StoredModel;

// RFC 8032, 7.1, test 1.
constexpr const char* kNoticeKey =
    "sparcl-ed25519-secret nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n";
constexpr const char* kNoticePublicKey =
    "sparcl-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n";
// Messages alone; an update of the model has 6 KB, and an anchor 400 KB.
constexpr std::uint64_t kFewBytes = 3000;

class StoreNotices : public sparcl::test::StoreApiTest {
 protected:
  ~StoreNotices() override {
    if (reader_ != nullptr) {
      EXPECT_EQ(sparclSubscriberDestroy(reader_), sparclSuccess);
    }
    if (publisher_ != nullptr) {
      EXPECT_EQ(sparclPublisherDestroy(publisher_), sparclSuccess);
    }
    EXPECT_EQ(sparclStoreClose(store_), sparclSuccess);
  }
  sparclStore_t open_plain() const {
    sparclStore_t store = nullptr;
    EXPECT_EQ(sparclStoreOpen(&store, url().c_str(), nullptr), sparclSuccess) << error();
    return store;
  }
  // writes: the publisher writes to the store, too.
  void start_publisher(bool writes) {
    const std::string listen = address_;
    sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
    options.listen = listen.empty() ? nullptr : listen.c_str();
    options.model_id = model_id_.c_str();
    options.key_path = key_.empty() ? nullptr : key_.c_str();
    options.store = writes ? store_ : nullptr;
    ASSERT_EQ(sparclPublisherCreate(&publisher_, trained_.state(), &options), sparclSuccess)
        << error();
    char address[64];
    ASSERT_EQ(sparclPublisherAddress(publisher_, address, sizeof address), sparclSuccess);
    address_ = address;
  }
  void stop_publisher() {
    ASSERT_EQ(sparclPublisherDestroy(publisher_), sparclSuccess) << error();
    publisher_ = nullptr;
  }
  void train(std::uint64_t version) {
    trained_.train(version);
    stored_.train(version);
  }
  void publish(std::uint64_t version) {
    train(version);
    ASSERT_EQ(sparclPublish(publisher_, version), sparclSuccess) << error();
  }
  void store(std::uint64_t version) {
    ASSERT_EQ(sparclStorePublish(store_, stored_.state(), version), sparclSuccess) << error();
  }
  sparclSubscriberOptions_t reader_options() const {
    sparclSubscriberOptions_t options = SPARCL_SUBSCRIBER_OPTIONS_INITIALIZER;
    options.model_id = model_id_.c_str();
    options.trust_path = trusted_.empty() ? nullptr : trusted_.c_str();
    options.store = store_;
    options.from_store = sparclOn;
    return options;
  }
  void start_reader(std::uint32_t patience_ms = 0, sparclToggle_t double_buffer = sparclOff) {
    sparclSubscriberOptions_t options = reader_options();
    options.store_patience_ms = patience_ms;
    options.double_buffer = double_buffer;
    ASSERT_EQ(sparclSubscriberCreate(&reader_, served_.state(), address_.c_str(), &options),
              sparclSuccess)
        << error();
  }
  // The reader shows the trained weights as this version.
  void expect_next(std::uint64_t version) {
    std::uint64_t got = 0;
    ASSERT_EQ(sparclSubscriberNext(reader_, 30, &got), sparclSuccess) << error();
    EXPECT_EQ(got, version);
    const void* shown = nullptr;
    ASSERT_EQ(sparclSubscriberTensor(reader_, 0, &shown), sparclSuccess) << error();
    EXPECT_TRUE(trained_.has_weights(shown));
  }
  // The publisher knows that the reader has the version, and has sent it little since it connected.
  void expect_counted(std::uint64_t version) const {
    ASSERT_EQ(sparclPublisherWait(publisher_, version, 1, 30), sparclSuccess) << error();
#ifdef SPARCL_PROGRAM
    const std::string report = folder_ + "/status";
    const std::string line =
        "'" SPARCL_PROGRAM "' status --json " + address_ + " >'" + report + "'";
    ASSERT_EQ(std::system(line.c_str()), 0) << line;
    std::ifstream file(report);
    const nlohmann::json replica = nlohmann::json::parse(file)["replicas"][0];
    EXPECT_EQ(replica["version"], version);
    EXPECT_EQ(replica["state"], "current");
    EXPECT_EQ(replica["from"], "elsewhere");
    EXPECT_LT(replica["bytes_sent"], kFewBytes);
#endif
  }
  std::string write_key(const std::string& name, const char* line) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << line;
    fs::permissions(path, fs::perms(0600));
    return path;
  }
  // Before anything starts.
  void require_signatures() {
    key_ = write_key("key", kNoticeKey);
    trusted_ = write_key("key.pub", kNoticePublicKey);
    model_id_ = "policy";
    EXPECT_EQ(sparclStoreClose(store_), sparclSuccess);
    sparclStoreOptions_t options = SPARCL_STORE_OPTIONS_INITIALIZER;
    options.model_id = "policy";
    options.trust_path = trusted_.c_str();
    ASSERT_EQ(sparclStoreOpen(&store_, url().c_str(), &options), sparclSuccess) << error();
  }

  StoredModel trained_, served_;
  StoredModel stored_;  // the same as trained_, for a store beside the publisher
  sparclStore_t store_ = open_plain();
  sparclPublisher_t publisher_ = nullptr;
  sparclSubscriber_t reader_ = nullptr;
  std::string address_, model_id_, key_, trusted_;
};

TEST_F(StoreNotices, BytesComeFromTheStoreAndThePublisherCountsTheReader) {
  start_publisher(true);
  publish(1);
  start_reader(30'000);
  expect_next(1);
  for (std::uint64_t version = 2; version <= 12; ++version) {
    publish(version);
    expect_next(version);
  }
  expect_counted(12);
  int connected = 0, holding = 0;
  ASSERT_EQ(sparclPublisherCount(publisher_, 12, &connected, &holding), sparclSuccess);
  EXPECT_EQ(connected, 1);
  EXPECT_EQ(holding, 1);
  EXPECT_EQ(sparclSubscriberNext(reader_, 0.01, nullptr), sparclTimeout) << "nothing is newer";
}

TEST_F(StoreNotices, AReaderThatIsLateTakesTheNewestVersion) {
  start_publisher(false);
  publish(1);
  store(1);
  start_reader(30'000, sparclOn);
  expect_next(1);
  for (std::uint64_t version = 2; version <= 100; ++version) {
    publish(version);
    if (version % 25 == 0) store(version);
  }
  expect_next(100);
  expect_counted(100);
}

TEST_F(StoreNotices, AVersionThatTheStoreGetsLaterIsAwaited) {
  start_publisher(false);
  publish(1);
  store(1);
  start_reader(30'000);
  expect_next(1);
  publish(2);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    store(2);
  });
  expect_next(2);
  later.join();
  expect_counted(2);
}

TEST_F(StoreNotices, AVersionThatTheStoreDoesNotGetComesFromThePublisher) {
  start_publisher(false);
  publish(1);
  start_reader(200);
  expect_next(1);  // the store is empty
  publish(2);
  expect_next(2);
  publish(3);
  expect_next(3);  // at once: the store has shown nothing yet
  store(3);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(2))
    EXPECT_EQ(sparclSubscriberNext(reader_, 0.1, nullptr), sparclTimeout);
  publish(4);
  store(4);
  expect_next(4);
  expect_counted(4);
}

TEST_F(StoreNotices, AStoreThatFailsIsUsedAgainForTheNextVersion) {
  if (sparcl::test::is_over_s3()) GTEST_SKIP() << "the folder of a store is taken away";
  start_publisher(true);
  publish(1);
  start_reader(200);
  expect_next(1);
  const std::string path = folder_ + "/a/store";
  fs::rename(path, path + ".away");
  std::ofstream(path) << "no folder";
  publish(2);
  expect_next(2);
  fs::remove(path);
  fs::rename(path + ".away", path);
  publish(3);
  ASSERT_EQ(sparclPublisherWaitStored(publisher_, 3, 60), sparclSuccess) << error();
  expect_next(3);
}

TEST_F(StoreNotices, ItGoesOnWithoutThePublisherAndWithTheNextOne) {
  start_publisher(true);
  publish(1);
  start_reader(30'000);
  expect_next(1);
  stop_publisher();
  train(2);
  store(2);
  expect_next(2);
  EXPECT_EQ(sparclStoreClose(store_), sparclSuccess);
  store_ = open_plain();
  start_publisher(true);
  publish(3);
  expect_next(3);
  expect_counted(3);
}

// The publisher sent version 2, and was lost before the store had it: the next one, which goes on
// from the store, makes another version 2.
TEST_F(StoreNotices, AVersionThatWasLostIsReplacedByTheStoresOne) {
  start_publisher(false);
  publish(1);
  store(1);
  start_reader(200);
  expect_next(1);
  publish(2);
  expect_next(2);
  stop_publisher();
  EXPECT_EQ(sparclStoreClose(store_), sparclSuccess);
  store_ = open_plain();
  trained_.train(77);
  start_publisher(true);
  ASSERT_EQ(sparclPublish(publisher_, 2), sparclSuccess) << error();
  expect_next(2);
}

TEST_F(StoreNotices, APublisherWithLowerNumbersIsNotFollowedBack) {
  start_publisher(false);
  publish(10);
  store(10);
  start_reader(100);
  expect_next(10);
  train(11);
  ASSERT_EQ(sparclPublish(publisher_, 11), sparclSuccess) << error();
  expect_next(11);  // asked for
  ASSERT_EQ(sparclPublish(publisher_, 12), sparclSuccess) << error();
  stop_publisher();
  start_publisher(false);
  ASSERT_EQ(sparclPublish(publisher_, 3), sparclSuccess) << error();
  std::uint64_t version = 0;
  const sparclResult_t result = sparclSubscriberNext(reader_, 1.5, &version);
  EXPECT_TRUE(result != sparclSuccess || version == 12) << version;
  ASSERT_EQ(sparclSubscriberVersion(reader_, &version, nullptr), sparclSuccess);
  EXPECT_GE(version, 11U);
  publish(13);
  store(13);
  expect_next(13);
}

TEST_F(StoreNotices, DamagedTensorsComeAgainFromTheStore) {
  ASSERT_EQ(::setenv("SPARCL_SWEEP_S", "0.05", 1), 0);
  start_publisher(true);
  publish(1);
  start_reader(30'000);
  ASSERT_EQ(::unsetenv("SPARCL_SWEEP_S"), 0);
  expect_next(1);
  served_.train(7);
  EXPECT_EQ(sparclSubscriberNext(reader_, 30, nullptr), sparclCorrupt) << error();
  expect_next(1);
  EXPECT_TRUE(served_ == trained_);
  expect_counted(1);
}

TEST_F(StoreNotices, OnlySignedVersionsAreTaken) {
  require_signatures();
  start_publisher(true);
  publish(1);
  start_reader(30'000);
  expect_next(1);
  publish(2);
  expect_next(2);
  expect_counted(2);
}

TEST_F(StoreNotices, WhatTheStoreHasWithoutASignatureComesFromThePublisher) {
  StoredModel forged;
  forged.train(9);
  const sparclStore_t rival = open();
  ASSERT_EQ(sparclStorePublish(rival, forged.state(), 1), sparclSuccess) << error();
  EXPECT_EQ(sparclStoreClose(rival), sparclSuccess);
  require_signatures();
  start_publisher(false);
  publish(1);
  start_reader(200);
  expect_next(1);
}

TEST_F(StoreNotices, AnotherModelIsRefusedAtOnce) {
  start_publisher(true);
  publish(1);
  model_id_ = "another";
  start_reader();
  EXPECT_EQ(sparclSubscriberNext(reader_, 30, nullptr), sparclMismatch) << error();
}

TEST_F(StoreNotices, CallsAndOptionsThatNeedUpdatesAreRefused) {
  start_publisher(false);
  publish(1);
  start_reader();
  EXPECT_EQ(sparclSubscriberPrepare(reader_, 0, nullptr), sparclInvalidUsage);
  EXPECT_NE(error().find("from_store"), std::string::npos) << error();
  EXPECT_EQ(sparclSubscriberPin(reader_, 1), sparclInvalidUsage);
  ASSERT_EQ(sparclSubscriberDestroy(reader_), sparclSuccess);
  reader_ = nullptr;
  sparclSubscriber_t refused = nullptr;
  const auto create = [&](const sparclSubscriberOptions_t& options) {
    return sparclSubscriberCreate(&refused, served_.state(), address_.c_str(), &options);
  };
  sparclSubscriberOptions_t options = reader_options();
  options.store = nullptr;
  EXPECT_EQ(create(options), sparclInvalidArgument);
  EXPECT_NE(error().find("options.store"), std::string::npos) << error();
  options = reader_options();
  options.from_store = sparclOff;
  options.store_patience_ms = 1;
  EXPECT_EQ(create(options), sparclInvalidArgument);
  EXPECT_NE(error().find("store_patience_ms"), std::string::npos) << error();
  options.from_store = static_cast<sparclToggle_t>(7);
  EXPECT_EQ(create(options), sparclInvalidArgument);
  options = reader_options();
  std::vector<std::uint16_t> rows(64);
  const std::uint64_t shape[] = {128}, begin[] = {64}, extent[] = {64};
  sparclState_t part = nullptr;
  ASSERT_EQ(sparclStateCreate(&part), sparclSuccess);
  ASSERT_EQ(
      sparclStateAddSlice(part, "weights", rows.data(), sparclBfloat16, 1, shape, begin, extent),
      sparclSuccess)
      << error();
  EXPECT_EQ(sparclSubscriberCreate(&refused, part, address_.c_str(), &options),
            sparclInvalidArgument);
  EXPECT_NE(error().find("slice of 'weights'"), std::string::npos) << error();
  EXPECT_EQ(sparclStateDestroy(part), sparclSuccess);
}

}  // namespace
