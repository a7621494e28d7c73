// A chain in a bucket whose server fails at any request: the error names the object, the committed
// version stays, and a repeated call succeeds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "src/store/s3/s3_store.hpp"
#include "tests/store/chain_support.hpp"
#include "tests/store/s3/stub_control.hpp"

namespace sparcl::store {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class S3ChainFaults : public testing::Test {
 protected:
  S3ChainFaults() {
    const std::string url = test::store_url(test::StoreBody::kS3, "");
    S3StoreOptions options;
    options.client.first_wait = options.client.max_wait = std::chrono::milliseconds(1);
    options.client.http.stall_timeout = std::chrono::seconds(2);
    options.client.max_tries = 3;
    store = std::move(*S3Store::open(url, options));
    set(Json::array());
    trained.change(1, 2);
  }
  static void set(const Json& faults) { (void)test::control_stub("PUT", faults.dump()); }

  // What a new reader gets: the version, whole.
  std::uint64_t newest_of(const std::vector<std::byte>& old, std::uint64_t version) const {
    Chain reader(*store);
    const auto newest = reader.newest();
    EXPECT_TRUE(newest.ok() && *newest) << newest.status().message();
    if (!newest.ok() || !*newest) return 0;
    HeldTensors held(kTensors);
    const auto steps = steps_to(reader, **newest, {});
    EXPECT_TRUE(steps.ok()) << steps.status().message();
    const Status restored = restore(reader, **newest, *steps, std::nullopt, state_of(held));
    EXPECT_TRUE(restored.ok()) << restored.message();
    EXPECT_TRUE(content(held) == ((*newest)->version == version ? new_content : old));
    return (*newest)->version;
  }

  std::unique_ptr<ObjectStore> store;
  HeldTensors trained{kTensors};
  std::vector<std::byte> new_content;
};

TEST_F(S3ChainFaults, EveryRequestOfAPublishMayFail) {
  const auto by = std::move(*ChainWriter::open(*store, state_of(trained), {}));
  ASSERT_TRUE(by->publish(1).ok());
  std::uint64_t version = 1;
  int failed = 0;
  for (Json fault :
       {Json{{"kind", "status"}, {"status", 500}, {"code", "InternalError"}, {"count", 99}},
        Json{{"kind", "status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 99}},
        Json{{"kind", "status"}, {"status", 403}, {"code", "AccessDenied"}},
        Json{{"kind", "status"},
             {"status", 409},
             {"code", "ConditionalRequestConflict"},
             {"count", 99}},
        Json{{"kind", "reset"}, {"count", 99}}, Json{{"kind", "lost"}, {"count", 99}},
        Json{{"kind", "lost_status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 99}}}) {
    // The delta, the record, the look at `pruned`; an answer that nothing is there is not lost.
    const int calls = fault["kind"].get<std::string>().starts_with("lost") ? 2 : 3;
    for (int skip = 0; skip < calls; ++skip) {
      const std::vector<std::byte> old = content(trained);
      trained.change(++version, 500);
      new_content = content(trained);
      fault["skip"] = skip;
      set(Json::array({fault}));
      const Status status = by->publish(version);
      by->finish();
      set(Json::array());
      EXPECT_FALSE(status.ok()) << fault << ": the server fails for good";
      ++failed;
      EXPECT_THAT(status.code(), AnyOf(Code::kRemoteError, Code::kUnauthorized)) << fault;
      EXPECT_THAT(std::string(status.message()), HasSubstr(store->location_of("")));
      (void)newest_of(old, version);
      const Status again = by->publish(version);
      ASSERT_TRUE(again.ok()) << fault << ": " << again.message();
      EXPECT_EQ(newest_of(old, version), version);
    }
  }
  EXPECT_EQ(failed, 5 * 3 + 2 * 2);
}

TEST_F(S3ChainFaults, AReaderNamesWhatItIsAnswered) {
  const auto by = std::move(*ChainWriter::open(*store, state_of(trained), {}));
  ASSERT_TRUE(by->publish(1).ok());
  const std::vector<std::byte> whole = content(trained);
  for (const Json& fault :
       {Json{{"kind", "cut"}, {"count", 99}}, Json{{"kind", "short"}}, Json{{"kind", "no_length"}},
        Json{{"kind", "stale"}, {"count", 99}}, Json{{"kind", "reset"}, {"count", 99}},
        Json{{"kind", "status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 99}}}) {
    Chain reader(*store);
    const VersionRecord newest = **reader.newest();
    const auto steps = steps_to(reader, newest, {});
    HeldTensors held(kTensors);
    held.change(99, 1);
    const std::vector<std::byte> before = content(held);
    set(Json::array({fault}));
    const Status status = restore(reader, newest, *steps, std::nullopt, state_of(held));
    set(Json::array());
    EXPECT_THAT(status.code(), AnyOf(Code::kCorrupt, Code::kRemoteError)) << fault;
    EXPECT_THAT(std::string(status.message()), HasSubstr(store->location_of("anchors/"))) << fault;
    EXPECT_TRUE(content(held) == before) << fault;
    const Status again = restore(reader, newest, *steps, std::nullopt, state_of(held));
    ASSERT_TRUE(again.ok()) << again.message();
    EXPECT_TRUE(content(held) == whole);
  }
}

}  // namespace
}  // namespace sparcl::store
