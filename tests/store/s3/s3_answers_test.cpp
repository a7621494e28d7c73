// What servers answer is hostile: XML, ranges, dates and files of settings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <random>
#include <string>

#include "src/store/s3/s3_range.hpp"
#include "src/store/s3/s3_settings.hpp"
#include "src/store/s3/s3_upload.hpp"
#include "src/store/s3/s3_xml.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kPage =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a page -->"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix/>"
    "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;&#x41;&#246;</"
    "NextContinuationToken><Contents><Key>p/a%2Bb+c%3D1</Key><LastModified>2013-05-24T00:00:00.000Z"
    "</LastModified><ETag>&quot;x&quot;</ETag><Size>18446744073709551615</Size><Owner><ID>1</ID>"
    "</Owner></Contents><Contents><Key>p/d</Key><Size>7</Size><LastModified>2013-05-24T"
    "00:00:00Z</LastModified></Contents></ListBucketResult>\n";

TEST(S3Xml, ListsAndErrorsAreRead) {
  const Result<S3Page> page = parse_s3_page(kPage);
  ASSERT_TRUE(page.ok()) << page.status().message();
  ASSERT_EQ(page->objects.size(), 2U);
  EXPECT_EQ(page->objects[0].key, "p/a+b c=1");
  EXPECT_EQ(page->objects[0].bytes, UINT64_MAX);
  EXPECT_EQ(page->objects[0].written_s, 1369353600);
  EXPECT_EQ(page->next, "a&A\xC3\xB6");
  const S3Error error = parse_s3_error(
      " \n<Error><Code>PermanentRedirect</Code><Message>&lt;here&gt;</Message><Region>eu</Region>"
      "</Error>");
  EXPECT_EQ(error.code + error.message + error.region, "PermanentRedirect<here>eu");
  EXPECT_EQ(parse_s3_error("<html><Code>x</Code></html>").code, "");
  EXPECT_EQ(*parse_upload_id("<InitiateMultipartUploadResult><UploadId>u 1</UploadId>"
                             "</InitiateMultipartUploadResult>"),
            "u 1");
}

TEST(S3Xml, AnythingElseIsRefused) {
  std::string deep;
  for (std::size_t i = 0; i <= kMaxXmlDepth; ++i) deep += "<a>";
  for (const std::string& text :
       {std::string(), std::string("none"), std::string("<a>"), std::string("<a></b>"),
        std::string("<a/><b/>"), std::string("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>"),
        std::string("<a>&x;</a>"), std::string("<a>&#0;</a>"), std::string("<a>&#xD800;</a>"),
        std::string("<a>&amp</a>"), std::string("<a><![CDATA[x]]></a>"), deep,
        std::string("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"),
        std::string("<ListBucketResult><Contents><Key>%4</Key></Contents></ListBucketResult>")}) {
    EXPECT_EQ(parse_s3_page(text).status().code(), Code::kCorrupt) << text;
    EXPECT_FALSE(parse_upload_id(text).ok()) << text;
  }
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    std::string mutated = kPage.substr(0, random() % (kPage.size() + 1));
    for (std::uint64_t change = random() % 4; change > 0 && !mutated.empty(); --change)
      mutated[random() % mutated.size()] = "<>/&;%\0a"[random() % 8];
    const Result<S3Page> page = parse_s3_page(mutated);
    EXPECT_TRUE(page.ok() || page.status().code() == Code::kCorrupt);
  }
}

TEST(S3Range, OnlySoundRangesAreTaken) {
  const auto range = parse_content_range("bytes 3-6/10");
  ASSERT_TRUE(range);
  EXPECT_EQ(range->first + 100 * range->last + 10'000 * range->object_bytes, 100'603U);
  EXPECT_EQ(parse_content_range("bytes */10")->object_bytes, 10U);
  for (const char* text : {"", "bytes 3-6", "bytes 3-6/*", "bytes 3-10/10", "bytes 3-6/10 ",
                           "bytes -1-6/10", "bytes 3-99999999999999999999/10", "lines 3-6/10"})
    EXPECT_FALSE(parse_content_range(text)) << text;
  EXPECT_EQ(seconds_of_http_date("Fri, 24 May 2013 00:00:00 GMT"), 1369353600);
  for (const char* text : {"", "Fri, 24 Mai 2013 00:00:00 GMT", "Fri, 24 May 2013 24:00:00 GMT",
                           "Fri, 31 Feb 2013 00:00:00 GMT"})
    EXPECT_FALSE(seconds_of_http_date(text)) << text;
  EXPECT_EQ(part_bytes_of(1, kPartBytes), kPartBytes);
  for (const std::uint64_t bytes :
       {kPartBytes * kMaxParts, kPartBytes * kMaxParts + 1, std::uint64_t{5} << 40})
    EXPECT_LE((bytes - 1) / part_bytes_of(bytes, kPartBytes) + 1, kMaxParts) << bytes;
}

class S3SettingsFiles : public testing::Test {
 protected:
  Result<S3Settings> read(const std::string& url = "s3://bucket/a/b") const {
    return read_s3_settings(url, [this](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
  }
  void write(const char* name, const char* text) {
    test::fs::create_directories(folder / ".aws");
    std::ofstream(folder / (std::string(".aws/") + name)) << text;
  }

  test::TempFolder folder;
  std::map<std::string, std::string> variables{{"HOME", folder.path().string()}};
};

TEST_F(S3SettingsFiles, WithoutKeysTheTextSaysWhereItLooked) {
  const std::string text(read().status().message());
  EXPECT_THAT(text, AllOf(HasSubstr("AWS_ACCESS_KEY_ID"), HasSubstr("AWS_SECRET_ACCESS_KEY"),
                          HasSubstr(folder / ".aws/credentials"), HasSubstr("'default'")));
  write("credentials", "[default]\naws_access_key_id = id\nthe secret");
  const std::string damaged(read().status().message());
  EXPECT_THAT(damaged, AllOf(HasSubstr("credentials:3"), Not(HasSubstr("the secret"))));
  variables["AWS_ACCESS_KEY_ID"] = "id";
  EXPECT_THAT(std::string(read().status().message()), HasSubstr("credentials:3"));
}

TEST_F(S3SettingsFiles, VariablesWinAndProfilesAreFound) {
  write("credentials",
        "# comment\n[other]\naws_access_key_id=x\n\n[work]\naws_access_key_id = id\n"
        "aws_secret_access_key = a=b/+\naws_session_token = t==\n");
  write("config",
        "[profile work]\nregion = eu-west-1\nendpoint_url = http://host:9000/\ns3 =\n"
        "  endpoint_url = x\n");
  variables["AWS_PROFILE"] = "work";
  Result<S3Settings> got = read("s3://bucket/a b/");
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got->keys, (AwsKeys{"id", "a=b/+", "t=="}));
  EXPECT_EQ(got->region + " " + got->scheme + " " + got->host, "eu-west-1 http host:9000");
  EXPECT_EQ(got->path_of(got->prefix + "/k=1"), "/bucket/a%20b/k%3D1");
  variables["AWS_REGION"] = "us-west-2";
  variables["AWS_ENDPOINT_URL_S3"] = "https://else";
  variables["SPARCL_S3_PATH_STYLE"] = "off";
  variables["AWS_ACCESS_KEY_ID"] = "id2";
  variables["AWS_SECRET_ACCESS_KEY"] = "s2";
  got = read();
  EXPECT_EQ(got->keys, (AwsKeys{"id2", "s2", ""}));
  EXPECT_EQ(got->region + " " + got->scheme + " " + got->host, "us-west-2 https bucket.else");
  EXPECT_EQ(got->path_of("k"), "/k");
}

TEST_F(S3SettingsFiles, WhatIsWrongIsRefused) {
  variables["AWS_ACCESS_KEY_ID"] = "id";
  variables["AWS_SECRET_ACCESS_KEY"] = "secret";
  EXPECT_EQ(read()->host, "bucket.s3.us-east-1.amazonaws.com");
  EXPECT_EQ(read("s3://with.dots")->path_of("k"), "/with.dots/k");
  for (const char* url : {"s3://", "s3://ab", "s3://a@evil.example/x", "s3://bucket/../x",
                          "s3://bucket//x", "s3://bucket/a\nb", "s3://-bucket"})
    EXPECT_EQ(read(url).status().code(), Code::kInvalidArgument) << url;
  const auto refused = [&](const char* name, const char* value) {
    const std::map<std::string, std::string> before = variables;
    variables[name] = value;
    EXPECT_EQ(read().status().code(), Code::kInvalidArgument) << name << "=" << value;
    variables = before;
  };
  refused("AWS_ENDPOINT_URL", "ftp://host");
  refused("AWS_ENDPOINT_URL", "http://user:password@host");
  refused("AWS_REGION", "us/../x");
  refused("AWS_SESSION_TOKEN", "a\r\nx: y");
  refused("SPARCL_S3_PATH_STYLE", "yes");
}

}  // namespace
}  // namespace sparcl::store
