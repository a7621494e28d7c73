// Signatures against published examples: the test suite of AWS Signature Version 4 (of the project
// aws-c-auth), and the examples of S3's documentation.

#include "src/store/s3/sigv4.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sparcl::store {
namespace {

constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string signature_of(const RequestToSign& request, const AwsKeys& keys, const AwsScope& scope) {
  const Result<std::string> text = authorization(request, keys, scope);
  return text.ok() ? text->substr(text->rfind('=') + 1) : std::string(text.status().message());
}

constexpr const char* kUnreserved =
    "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

struct SuiteCase {
  const char *name, *method, *path;
  NamedTexts query, headers;
  const char* signature;
};

TEST(SignatureV4, SuiteOfAws) {
  const AwsKeys keys{"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", ""};
  const AwsScope scope{"20150830T123600Z", "us-east-1", "service"};
  const SuiteCase cases[] = {
      {"get-vanilla",
       "GET",
       "/",
       {},
       {},
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-encoded",
       "GET",
       "/",
       {{"Param-3", "Value3"}, {"Param", "Value2"}, {"\xE1\x88\xB4", "Value1"}},
       {},
       "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
      {"get-vanilla-query-order-key-case",
       "GET",
       "/",
       {{"Param2", "value2"}, {"Param1", "value1"}},
       {},
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
      {"get-vanilla-query-unreserved",
       "GET",
       "/",
       {{kUnreserved, kUnreserved}},
       {},
       "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"},
      {"get-utf8",
       "GET",
       "/\xE1\x88\xB4",
       {},
       {},
       "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"},
      {"get-space-unnormalized",
       "GET",
       "/example space/",
       {},
       {},
       "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"},
      {"get-slashes-unnormalized",
       "GET",
       "//example//",
       {},
       {},
       "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5"},
      {"post-header-key-sort",
       "POST",
       "/",
       {},
       {{"my-header1", "value1"}},
       "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c"},
      {"get-header-value-trim",
       "GET",
       "/",
       {},
       {{"my-header1", " value1"}, {"my-header2", " \"a   b   c\""}},
       "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
      {"get-header-key-duplicate",
       "GET",
       "/",
       {},
       {{"my-header1", "value2"}, {"my-header1", "value2"}, {"my-header1", "value1"}},
       "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"},
      {"get-vanilla-with-session-token",
       "GET",
       "/",
       {},
       {{"x-amz-security-token",
         "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"}},
       "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
  };
  for (const SuiteCase& each : cases) {
    RequestToSign request{each.method, uri_encoded(each.path, true), each.query, each.headers,
                          kEmpty};
    request.headers.emplace_back("host", "example.amazonaws.com");
    request.headers.emplace_back("x-amz-date", scope.time);
    EXPECT_EQ(signature_of(request, keys, scope), each.signature) << each.name << "\n"
                                                                  << canonical_request(request);
  }
}

TEST(SignatureV4, ExamplesOfS3) {
  const AwsKeys keys{"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""};
  const AwsScope scope{"20130524T000000Z", "us-east-1", "s3"};
  const auto sign = [&](const char* method, const std::string& path, const NamedTexts& query,
                        const NamedTexts& headers, const std::string& sha256) {
    RequestToSign request{method, path, query, headers, sha256};
    request.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
    request.headers.emplace_back("x-amz-content-sha256", sha256);
    request.headers.emplace_back("x-amz-date", scope.time);
    return signature_of(request, keys, scope);
  };
  const std::string body = "Welcome to Amazon S3.";
  const std::array pieces{std::as_bytes(std::span(body)).first(7),
                          std::as_bytes(std::span(body)).subspan(7)};
  EXPECT_EQ(sign("GET", "/test.txt", {}, {{"range", "bytes=0-9"}}, kEmpty),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
  EXPECT_EQ(sign("PUT", uri_encoded("/test$file.text", true), {},
                 {{"date", "Fri, 24 May 2013 00:00:00 GMT"},
                  {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                 *sha256_hex(pieces)),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
  EXPECT_EQ(sign("GET", "/", {{"lifecycle", ""}}, {}, kEmpty),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
  EXPECT_EQ(sign("GET", "/", {{"prefix", "J"}, {"max-keys", "2"}}, {}, kEmpty),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(SignatureV4, EncodesAllButUnreservedCharacters) {
  EXPECT_EQ(uri_encoded("/a=b:c@d'e(f g/\xC3\xA9+~-._", true),
            "/a%3Db%3Ac%40d%27e%28f%20g/%C3%A9%2B~-._");
  EXPECT_EQ(uri_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(query_text({{"b", "="}, {"a", ""}, {"a-", "x y"}, {"B", "&"}}),
            "B=%26&a=&a-=x%20y&b=%3D");
  EXPECT_EQ(aws_time(1369353600), "20130524T000000Z");
}

}  // namespace
}  // namespace sparcl::store
