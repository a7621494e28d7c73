#pragma once
// Signed requests to one bucket, repeated while the server is busy or unreachable.

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/net/http/http_client.hpp"
#include "src/store/object_store.hpp"
#include "src/store/s3/s3_settings.hpp"
#include "src/store/s3/s3_xml.hpp"

namespace sparcl::store {

struct S3ClientOptions {
  net::HttpOptions http;
  std::chrono::duration<double> timeout{600};  // of one request with its repetitions
  int max_tries = 8;
  // The longest wait before try n is first_wait * 2^(n - 2), up to max_wait. The wait is a random
  // part of it ("full jitter").
  std::chrono::milliseconds first_wait{100}, max_wait{10'000};
};

struct S3Request {
  std::string method = "GET";
  std::string key;            // with the prefix; "": the bucket
  NamedTexts query, headers;  // beside those of the signature
  Pieces body;
  const net::HttpSink* sink = nullptr;  // once it has taken bytes, the request is not repeated
  std::size_t max_bytes = 64 << 10;     // of the answer
  bool repeats_conflicts = true;        // with other requests for the same object
};

struct S3Answer {
  net::HttpAnswer http;
  S3Error error;  // of an answer that is no success
  int tries = 1;

  int status() const { return http.status; }
  bool is_success() const { return http.is_success(); }
};

class S3Client {
 public:
  static Result<std::unique_ptr<S3Client>> open(const std::string& url,
                                                const S3ClientOptions& options);

  const S3Settings& settings() const { return settings_; }
  // "s3://bucket/key".
  std::string location(std::string_view key) const;

  // No request takes longer than up to then; nullopt: than its own limit.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) {
    deadline_ = deadline.value_or(std::chrono::steady_clock::time_point::max());
  }

  // The last answer, whatever its status. RemoteError, Timeout: no whole answer came; the request
  // may have had its effect.
  Result<S3Answer> send(const S3Request& request);
  // An answer that is no success, as an error that names the object, the answer and what to do.
  Status error_of(const S3Request& request, const S3Answer& answer) const;

 private:
  S3Client(std::string url, S3Settings settings, const S3ClientOptions& options)
      : url_(std::move(url)), settings_(std::move(settings)), options_(options) {}
  Result<S3Answer> try_once(const S3Request& request, const std::string& body_sha256,
                            std::chrono::steady_clock::time_point deadline);
  // No whole answer came. Names the server if it may be the wrong one.
  Status no_answer(const S3Request& request, const Status& why, int tries) const;
  bool has_new_keys(const AwsKeys& used);
  AwsKeys keys() const;

  const std::string url_;
  S3Settings settings_;  // all but keys stay as they are
  const S3ClientOptions options_;
  std::atomic<std::chrono::steady_clock::time_point> deadline_{
      std::chrono::steady_clock::time_point::max()};
  std::unique_ptr<net::HttpClient> http_;
  mutable std::mutex changing_;  // guards settings_.keys
};

}  // namespace sparcl::store
