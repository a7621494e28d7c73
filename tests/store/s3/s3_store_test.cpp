// S3Store against a server that fails in every way of networks and servers.

#include "src/store/s3/s3_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/store/chain_support.hpp"
#include "tests/store/s3/stub_control.hpp"
#include "tests/support/s3_stub.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/test_authority.hpp"

namespace sparcl::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class S3Faults : public testing::Test {
 protected:
  S3Faults() : url(test::store_url(test::StoreBody::kS3, "")) {
    test::S3Stub::set_environment(test::S3Stub::get().endpoint());
    options.client.first_wait = std::chrono::milliseconds(1);
    options.client.http.stall_timeout = std::chrono::seconds(1);
    options.part_bytes = 1 << 20;
    store = open(url);
    set(Json::array());
  }
  std::unique_ptr<ObjectStore> open(const std::string& address) const {
    Result<std::unique_ptr<ObjectStore>> opened = S3Store::open(address, options);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(*opened);
  }
  static void set(const Json& faults) { (void)test::control_stub("PUT", faults.dump()); }
  // "PUT", "GET", ... since the last set().
  static std::vector<std::string> requests() {
    std::vector<std::string> methods;
    for (const auto& each : Json::parse(test::control_stub("GET", "")))
      methods.push_back(each.get<std::string>().substr(0, each.get<std::string>().find(' ')));
    return methods;
  }
  Result<bool> put(const std::string& key, std::string_view text) const {
    const auto all = std::as_bytes(std::span(text.data(), text.size()));
    const std::array pieces{all.first(all.size() / 3), all.subspan(all.size() / 3)};
    return store->put_if_absent(key, pieces);
  }
  std::string read(const std::string& key) const {
    const auto got = store->read_all(key, 64 << 20);
    if (!got.ok()) return std::string(got.status().message());
    if (!*got) return "none";
    return {reinterpret_cast<const char*>((*got)->data()), (*got)->size()};
  }
  // As read(), by ranges.
  std::string read_whole(const std::string& key, std::size_t bytes) const {
    std::string text(bytes, ' ');
    const PieceSink sink{[&](std::uint64_t first, std::size_t count) {
                           return std::as_writable_bytes(std::span(text)).subspan(first, count);
                         },
                         [](std::span<const std::byte>) { return Status(); }};
    const Result<bool> got = store->read_whole(key, bytes, 0, sink);
    if (!got.ok()) return std::string(got.status().message());
    return *got ? text : "none";
  }
  static std::string large() {
    std::string text((7 << 19) + 11, ' ');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 977);
    return text;
  }

  std::string url;
  S3StoreOptions options;
  std::unique_ptr<ObjectStore> store;
};

TEST_F(S3Faults, LargeObjectsComeInRangesOverSeveralConnections) {
  const std::string text = large();
  ASSERT_TRUE(*put("big", text));
  options.ranges = {300'000, 4};
  store = open(url);
  const std::size_t ranges = (text.size() + 299'999) / 300'000;
  set(Json::array());
  EXPECT_TRUE(read_whole("big", text.size()) == text);
  EXPECT_EQ(requests().size(), ranges);
  EXPECT_EQ(read_whole("none", text.size()), "none");
  EXPECT_THAT(read_whole("big", text.size() + 1), HasSubstr("its record says"));
  EXPECT_THAT(read_whole("big", text.size() - 1), HasSubstr("its record says"));
  for (const Json& fault :
       {Json{{"kind", "cut"}, {"count", 5}}, Json{{"kind", "reset"}, {"count", 3}},
        Json{{"kind", "whole"}, {"count", 2}}, Json{{"kind", "slow"}, {"seconds", 0.3}},
        Json{{"kind", "status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 6}}}) {
    set(Json::array({fault}));
    EXPECT_TRUE(read_whole("big", text.size()) == text) << fault;
  }
  set(Json::array({{{"kind", "status"}, {"status", 403}, {"code", "AccessDenied"}, {"skip", 5}}}));
  EXPECT_THAT(read_whole("big", text.size()),
              AllOf(HasSubstr(store->location_of("big")), HasSubstr("AccessDenied")));
  set(Json::array({{{"kind", "range"}, {"skip", 3}}}));
  EXPECT_THAT(read_whole("big", text.size()), HasSubstr(store->location_of("big")));
}

TEST_F(S3Faults, WhatIsMadeGoesInPartsWhileItIsMade) {
  const std::string text = large();
  const auto put_as_made = [&](const std::string& key) -> Result<bool> {
    SPARCL_ASSIGN_OR_RETURN(const auto writer, store->begin(key, text.size()));
    const auto all = std::as_bytes(std::span(text));
    for (std::size_t at = 0; at < text.size(); at += 300'000)
      SPARCL_RETURN_IF_ERROR(writer->write(all.subspan(at, std::min(text.size() - at, 300'000UL))));
    return writer->finish();
  };
  const Result<bool> is_new = put_as_made("k");
  ASSERT_TRUE(is_new.ok()) << is_new.status().message();
  EXPECT_TRUE(*is_new);
  EXPECT_TRUE(read("k") == text);
  EXPECT_FALSE(*put_as_made("k"));
  set(Json::array({{{"kind", "reset"}, {"method", "PUT"}, {"count", 2}}}));
  EXPECT_TRUE(*put_as_made("again")) << "a part is sent again";
  EXPECT_TRUE(read("again") == text);
  set(Json::array({{{"kind", "status"},
                    {"status", 403},
                    {"code", "AccessDenied"},
                    {"method", "PUT"},
                    {"skip", 2}}}));
  EXPECT_THAT(std::string(put_as_made("refused").status().message()),
              AllOf(HasSubstr(store->location_of("refused")), HasSubstr("AccessDenied")));
  EXPECT_EQ(requests().back(), "DELETE") << "its parts are removed";
  EXPECT_EQ(read("refused"), "none");
}

TEST_F(S3Faults, UploadsOfKilledWritersAreRemoved) {
  const std::string text = large();
  constexpr int kUploads = 7;  // more than a page of the list
  for (int i = 0; i < kUploads; ++i) {
    const auto writer = std::move(*store->begin("left/" + std::to_string(i), text.size()));
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(text))).ok());
    // As if the process was killed: nothing is removed.
    set(Json::array(
        {{{"kind", "status"}, {"status", 403}, {"code", "AccessDenied"}, {"method", "DELETE"}}}));
  }
  set(Json::array());
  EXPECT_EQ(*store->remove_unfinished(1), 0U) << "none is so old";
  const std::int64_t now = std::time(nullptr);
  EXPECT_EQ(*store->remove_unfinished(now + 86'000), 0U) << "a writer may still be at them";
  EXPECT_EQ(*open(url + "x")->remove_unfinished(INT64_MAX), 0U) << "another store's";
  EXPECT_EQ(*store->remove_unfinished(INT64_MAX), std::uint64_t{kUploads});
  EXPECT_EQ(*store->remove_unfinished(INT64_MAX), 0U);
  set(Json::array({{{"kind", "status"}, {"status", 501}, {"code", "NotImplemented"}}}));
  EXPECT_EQ(*store->remove_unfinished(INT64_MAX), 0U) << "servers that have no such list";
}

TEST_F(S3Faults, ABusyServerIsAskedAgain) {
  ASSERT_TRUE(*put("k", "text"));
  int round = 0;
  for (const Json& fault :
       {Json{{"kind", "status"}, {"status", 500}, {"code", "InternalError"}, {"count", 2}},
        Json{{"kind", "status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 3}},
        Json{{"kind", "status"}, {"status", 429}, {"code", "TooManyRequests"}},
        Json{{"kind", "status"}, {"status", 400}, {"code", "RequestTimeout"}},
        Json{{"kind", "reset"}, {"count", 2}}, Json{{"kind", "cut"}}}) {
    set(Json::array({fault}));
    EXPECT_EQ(read("k"), "text") << fault;
    set(Json::array({fault}));
    EXPECT_EQ(read_whole("k", 4), "text") << fault;
    set(Json::array({fault}));
    const std::string key = "new" + std::to_string(++round);
    EXPECT_TRUE(*put(key, "other")) << fault;
  }
  set(Json::array({{{"kind", "slow"}, {"seconds", 3}}}));
  EXPECT_EQ(read("k"), "text") << "nothing moves for a second: another connection";
  set(Json::array({{{"kind", "status"}, {"status", 503}, {"code", "SlowDown"}, {"count", 99}}}));
  EXPECT_THAT(read("k"), AllOf(HasSubstr(store->location_of("k")), HasSubstr("503 SlowDown"),
                               HasSubstr("8 tries")));
}

TEST_F(S3Faults, ADeadlineEndsARequestBeforeItsOwnLimit) {
  ASSERT_TRUE(*put("k", "text"));
  set(Json::array({{{"kind", "slow"}, {"seconds", 3}}}));
  store->set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
  EXPECT_EQ(store->read_all("k", 64).status().code(), Code::kTimeout);
  EXPECT_EQ(store->read_all("k", 64).status().code(), Code::kTimeout) << "it has passed";
  EXPECT_THAT(requests(), ElementsAre("GET")) << "the second one was not sent";
  store->set_deadline(std::nullopt);
  EXPECT_EQ(read("k"), "text");
}

TEST_F(S3Faults, WrongBytesAreNamed) {
  ASSERT_TRUE(*put("k", "0123456789"));
  std::array<char, 4> part{};
  const auto range = [&]() -> std::string {
    const Result<bool> got = store->read("k", 3, std::as_writable_bytes(std::span(part)));
    if (!got.ok()) return std::string(got.status().message());
    return *got ? std::string(part.data(), 4) : "none";
  };
  const std::string at = store->location_of("k");
  EXPECT_EQ(range(), "3456");
  set(Json::array({{{"kind", "whole"}}}));
  EXPECT_EQ(range(), "3456") << "the server ignores ranges";
  set(Json::array({{{"kind", "range"}}}));
  EXPECT_THAT(range(), AllOf(HasSubstr(at), HasSubstr("bytes 4 to 7")));
  set(Json::array({{{"kind", "short"}}}));
  EXPECT_THAT(range(), AllOf(HasSubstr(at), HasSubstr("it has 5 bytes")));
  set(Json::array({{{"kind", "short"}}}));
  EXPECT_THAT(read_whole("k", 10), AllOf(HasSubstr(at), HasSubstr("5 bytes")));
  set(Json::array({{{"kind", "no_length"}}}));
  EXPECT_THAT(read_whole("k", 10), AllOf(HasSubstr(at), HasSubstr("Content-Length")));
  set(Json::array({{{"kind", "stale"}}}));
  EXPECT_EQ(read("k"), "none");
}

TEST_F(S3Faults, ACutDownloadGoesOn) {
  const std::string text = large();
  ASSERT_TRUE(*put("big", text));
  set(Json::array({{{"kind", "cut"}, {"method", "GET"}, {"count", 3}}}));
  EXPECT_TRUE(read_whole("big", text.size()) == text);
  EXPECT_THAT(requests(), ElementsAre("GET", "GET", "GET", "GET"));
}

TEST_F(S3Faults, AfterALostReplyAPutKnowsItsOwnObject) {
  ASSERT_TRUE(store->capabilities()->excludes_writers);
  int round = 0;
  for (const Json& fault :
       {Json{{"kind", "lost"}, {"method", "PUT"}},
        Json{{"kind", "lost_status"}, {"method", "PUT"}, {"status", 500}, {"code", "x"}},
        Json{{"kind", "status"},
             {"method", "PUT"},
             {"status", 409},
             {"code", "ConditionalRequestConflict"}}}) {
    const std::string key = "k" + std::to_string(round++);
    set(Json::array({fault}));
    EXPECT_TRUE(*put(key, "mine")) << fault;
    EXPECT_FALSE(*put(key, "mine")) << "another call";
  }
  ASSERT_TRUE(*put("others", "theirs"));
  set(Json::array({{{"kind", "reset"}, {"method", "PUT"}}}));
  EXPECT_FALSE(*put("others", "mine")) << "the first try had no effect";
  EXPECT_EQ(read("others"), "theirs");
}

TEST_F(S3Faults, LargeObjectsComeInParts) {
  const std::string text = large();
  ASSERT_TRUE(store->capabilities()->excludes_writers);
  set(Json::array());
  ASSERT_TRUE(*put("big", text));
  EXPECT_THAT(requests(), ElementsAre("HEAD", "POST", "PUT", "PUT", "PUT", "PUT", "POST"));
  EXPECT_TRUE(read("big") == text);
  EXPECT_FALSE(*put("big", text));
  int round = 0;
  for (const Json& fault :
       {Json{{"kind", "reset"}, {"query", "partNumber=2"}},
        Json{{"kind", "lost"}, {"query", "partNumber=4"}},
        Json{{"kind", "status"}, {"query", "uploads"}, {"status", 503}, {"code", "SlowDown"}},
        Json{{"kind", "error200"},
             {"method", "POST"},
             {"query", "uploadId"},
             {"code", "InternalError"}},
        Json{{"kind", "lost"}, {"method", "POST"}, {"query", "uploadId"}},
        Json{{"kind", "error200"},
             {"method", "POST"},
             {"query", "uploadId"},
             {"code", "ConditionalRequestConflict"}},
        Json{{"kind", "status"},
             {"method", "POST"},
             {"query", "uploadId"},
             {"status", 409},
             {"code", "ConditionalRequestConflict"}}}) {
    const std::string key = "part" + std::to_string(round++);
    set(Json::array({fault}));
    const Result<bool> done = put(key, text);
    ASSERT_TRUE(done.ok() && *done) << fault << done.status().message();
    EXPECT_TRUE(read(key) == text);
  }
}

TEST_F(S3Faults, AListWithoutAnEndIsRefused) {
  options.max_list_pages = 20;
  store = open(url);
  int listed = 0;
  const auto list = [&](const Json& fault) {
    set(Json::array({fault}));
    const Status status = store->list("commits", [&](const ObjectInfo&) { return ++listed > 0; });
    EXPECT_EQ(status.code(), Code::kCorrupt);
    return std::string(status.message());
  };
  const std::string at = store->location_of("commits/");
  EXPECT_THAT(list({{"kind", "endless"}, {"count", 1000}}),
              AllOf(HasSubstr(at), HasSubstr("has no end: 20 parts came")));
  EXPECT_EQ(listed, 20);
  EXPECT_THAT(list({{"kind", "endless"}, {"count", 1000}, {"token", "7"}}),
              AllOf(HasSubstr(at), HasSubstr("does not go on")));
  EXPECT_EQ(listed, 22);
}

TEST_F(S3Faults, AFailedUploadIsTakenBack) {
  const std::string text = large();
  for (const Json& fault : {Json{{"kind", "status"},
                                 {"query", "partNumber=3"},
                                 {"status", 403},
                                 {"code", "AccessDenied"}},
                            Json{{"kind", "error200"},
                                 {"query", "uploadId"},
                                 {"method", "POST"},
                                 {"code", "EntityTooSmall"}}}) {
    set(Json::array({fault}));
    const Result<bool> done = put("never", text);
    EXPECT_THAT(
        std::string(done.status().message()),
        AllOf(HasSubstr(store->location_of("never")), HasSubstr(fault["code"].get<std::string>())));
    EXPECT_EQ(requests().back(), "DELETE");
    EXPECT_EQ(read("never"), "none");
  }
}

TEST_F(S3Faults, WhoMayNotIsToldWhatToDo) {
  const auto error = [&](const char* name, const char* value, const std::string& address) {
    test::S3Stub::set_environment(test::S3Stub::get().endpoint());
    ::setenv(name, value, 1);
    const auto own = open(address);
    const auto got = own->read_all("k", 100);
    test::S3Stub::set_environment(test::S3Stub::get().endpoint());
    return std::string(code_name(got.status().code())) + ": " + std::string(got.status().message());
  };
  EXPECT_THAT(error("AWS_SECRET_ACCESS_KEY", "a/wrong+secret", url),
              AllOf(HasSubstr("sparclUnauthorized"), HasSubstr("403 SignatureDoesNotMatch"),
                    HasSubstr("check AWS_SECRET_ACCESS_KEY"), Not(HasSubstr("a/wrong"))));
  EXPECT_THAT(error("AWS_ACCESS_KEY_ID", "unknown", url), HasSubstr("InvalidAccessKeyId"));
  EXPECT_THAT(error("AWS_ACCESS_KEY_ID", "expired-key", url),
              AllOf(HasSubstr("ExpiredToken"), HasSubstr("renew the session token")));
  EXPECT_THAT(error("AWS_REGION", "eu-south-9", url),
              AllOf(HasSubstr("sparclInvalidArgument"), HasSubstr("set AWS_REGION"),
                    HasSubstr("the bucket is in eu-north-1")));
  EXPECT_THAT(error("no_proxy", "*", "s3://missing/x"),
              AllOf(HasSubstr("s3://missing/x/k"), HasSubstr("NoSuchBucket")));
  set(Json::array({{{"kind", "skewed"}}}));
  EXPECT_THAT(read("k"), AllOf(HasSubstr("RequestTimeTooSkewed"), HasSubstr("set the clock")));
  set(Json::array({{{"kind", "status"}, {"status", 301}, {"code", "PermanentRedirect"}}}));
  EXPECT_THAT(read("k"), AllOf(HasSubstr("301"), HasSubstr("the bucket is in eu-north-1")));
}

TEST_F(S3Faults, SessionTokensAreSigned) {
  ::setenv("AWS_ACCESS_KEY_ID", "temporary-key", 1);
  ::setenv("AWS_SESSION_TOKEN", "a/session+token==", 1);
  store = open(url);
  EXPECT_TRUE(*put("k", "with a token"));
  EXPECT_EQ(read("k"), "with a token");
}

TEST_F(S3Faults, AServerThatIsNotThereIsNamed) {
  ::setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1", 1);
  store = open(url);
  EXPECT_THAT(read("k"), AllOf(HasSubstr(store->location_of("k")), HasSubstr("127.0.0.1")));
  ::setenv("AWS_ENDPOINT_URL_S3", ("https" + test::S3Stub::get().endpoint().substr(4)).c_str(), 1);
  store = open(url);
  EXPECT_THAT(read("k"), HasSubstr(store->location_of("k"))) << "it speaks no TLS";
}

TEST_F(S3Faults, CertificatesAreVerified) {
  const test::TempFolder folder;
  const test::TestAuthority authority;
  const test::S3Stub secure(authority.write(folder / "right", ""));
  const auto error = [&] {
    store = open(url);
    const Result<bool> done = put("k", "x");
    return std::string(code_name(done.status().code())) + ": " +
           std::string(done.status().message());
  };
  EXPECT_THAT(error(), AllOf(HasSubstr("sparclUnauthorized"), HasSubstr("AWS_CA_BUNDLE")));
  ::setenv("AWS_CA_BUNDLE", (folder / "right/ca.crt").c_str(), 1);
  EXPECT_THAT(error(), HasSubstr("sparclSuccess"));
  EXPECT_EQ(read("k"), "x");
  test::CertificateTerms other;
  other.names = "DNS:elsewhere";
  const test::S3Stub wrong(authority.write(folder / "wrong", other));
  ::setenv("AWS_CA_BUNDLE", (folder / "right/ca.crt").c_str(), 1);
  EXPECT_THAT(error(), AllOf(HasSubstr("sparclUnauthorized"), HasSubstr("127.0.0.1")));
}

TEST_F(S3Faults, TheProbeFindsServersThatIgnoreConditions) {
  const auto plain = open(test::store_url(test::StoreBody::kS3WithoutConditions, ""));
  EXPECT_FALSE(plain->capabilities()->excludes_writers);
  const std::array pieces{std::as_bytes(std::span("x", 1))};
  EXPECT_TRUE(*plain->put_if_absent("k", pieces));
  EXPECT_FALSE(*plain->put_if_absent("k", pieces)) << "it looks first";
}

TEST_F(S3Faults, AReaderThatFollowsMakesThreeRequestsAVersion) {
  const model::Schema tensors{{"w", DataType::kFloat32, {2'000'000}}};
  replication::HeldTensors trained(tensors), served(tensors);
  const std::unique_ptr<ObjectStore> readers = open(url);
  Chain chain(*readers);
  std::optional<model::HeldVersion> held;
  const auto by = ChainWriter::open(*store, state_of(trained), {});
  ASSERT_TRUE(by.ok()) << by.status().message();
  for (std::uint64_t version = 1; version <= 6; ++version) {
    trained.change(version, 900'000);  // a delta of several leaves
    ASSERT_TRUE((*by)->publish(version).ok());
    (*by)->finish();
    set(Json::array());
    const auto newest = chain.newest();
    ASSERT_TRUE(newest.ok() && *newest) << newest.status().message();
    const auto steps = steps_to(chain, **newest, {.held = held});
    ASSERT_TRUE(steps.ok()) << steps.status().message();
    const Status restored = restore(chain, **newest, *steps, held, state_of(served));
    ASSERT_TRUE(restored.ok()) << restored.message();
    held = {version, (*newest)->target_hash};
    if (version > 1) {
      EXPECT_EQ(requests().size(), 3U);
    }
    set(Json::array());
    EXPECT_EQ((*chain.newest())->version, version);
    EXPECT_THAT(requests(), ElementsAre("GET", "GET")) << "nothing is new";
    EXPECT_TRUE(std::ranges::equal(trained.tensor(0), served.tensor(0)));
  }
}

TEST_F(S3Faults, ASecondWriterIsDetectedWhereConditionsAreIgnored) {
  const std::string plain = test::store_url(test::StoreBody::kS3WithoutConditions, "");
  const std::unique_ptr<ObjectStore> one = open(plain), two = open(plain);
  replication::HeldTensors tensors({{"w", DataType::kFloat32, {1000}}});
  const ChainState state = state_of(tensors);
  const auto refused = ChainWriter::open(*one, state, {});
  EXPECT_EQ(refused.status().code(), Code::kUnsupported);
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("ignores If-None-Match"), HasSubstr("single_writer"),
                    HasSubstr(one->location_of("commits"))));
  const WriterOptions alone{.single_writer = true};
  const auto first = ChainWriter::open(*one, state, alone),
             second = ChainWriter::open(*two, state, alone);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE((*first)->publish(1).ok());
  // The second one's look finds nothing, as if it had come at the same time.
  tensors.change(7, 10);
  set(Json::array({{{"kind", "stale"}, {"method", "HEAD"}, {"key", "/commits/"}}}));
  ASSERT_TRUE((*second)->publish(2).ok());
  const Status status = (*first)->publish(3);
  EXPECT_EQ(status.code(), Code::kStale);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has published version 2 over version 1"));
  EXPECT_EQ((*first)->publish(4).code(), Code::kStale) << "it stays stopped";
}

}  // namespace
}  // namespace sparcl::store
