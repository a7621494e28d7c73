#include "src/store/s3/s3_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <thread>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/base/shown_text.hpp"

namespace sparcl::store {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::duration<double, std::milli>;

bool is_busy(const S3Answer& answer) {
  constexpr std::array kStatus{429, 500, 502, 503, 504};
  constexpr std::array<std::string_view, 5> kCodes{"SlowDown", "InternalError", "RequestTimeout",
                                                   "ServiceUnavailable", "OperationAborted"};
  return std::ranges::find(kStatus, answer.status()) != kStatus.end() ||
         std::ranges::find(kCodes, answer.error.code) != kCodes.end();
}

bool is_conflict(const S3Answer& answer) {
  return answer.error.code == "ConditionalRequestConflict";
}

bool has_expired(const S3Answer& answer) {
  return answer.error.code == "ExpiredToken" || answer.error.code == "InvalidAccessKeyId" ||
         answer.error.code == "InvalidToken";
}

// What to do about a code or a status of S3.
struct S3Advice {
  std::string_view code;
  Code result;
  std::string_view next;
};
constexpr std::array kAdvice{
    S3Advice{"NoSuchBucket", Code::kInvalidArgument,
             "make the bucket, or correct its name or the endpoint"},
    S3Advice{"InvalidBucketName", Code::kInvalidArgument, "correct the bucket's name"},
    S3Advice{"AccessDenied", Code::kUnauthorized,
             "give these keys the rights s3:GetObject and s3:ListBucket, and to a publisher "
             "s3:PutObject (without s3:ListBucket a missing object is answered like this, too)"},
    S3Advice{"SignatureDoesNotMatch", Code::kUnauthorized,
             "check AWS_SECRET_ACCESS_KEY and AWS_REGION"},
    S3Advice{"InvalidAccessKeyId", Code::kUnauthorized, "check AWS_ACCESS_KEY_ID"},
    S3Advice{"ExpiredToken", Code::kUnauthorized, "renew the session token: AWS_SESSION_TOKEN"},
    S3Advice{"InvalidToken", Code::kUnauthorized, "check AWS_SESSION_TOKEN"},
    S3Advice{"PermanentRedirect", Code::kInvalidArgument, "set AWS_REGION to the bucket's region"},
    S3Advice{"TemporaryRedirect", Code::kInvalidArgument, "set AWS_REGION to the bucket's region"},
    S3Advice{"AuthorizationHeaderMalformed", Code::kInvalidArgument,
             "set AWS_REGION to the bucket's region"},
    S3Advice{"NotImplemented", Code::kUnsupported, "use another server"},
};

S3Advice advice_of(const S3Answer& answer) {
  for (const S3Advice& each : kAdvice) {
    if (each.code == answer.error.code) return each;
  }
  if (is_busy(answer)) return {"", Code::kRemoteError, "the server is busy or fails: try later"};
  if (answer.status() >= 300 && answer.status() < 400)
    return {"", Code::kInvalidArgument, "set AWS_REGION to the bucket's region"};
  if (answer.status() == 401 || answer.status() == 403) return kAdvice[2];  // HEAD has no code
  return {"", Code::kRemoteError, "see the server's documentation of this code"};
}

// Before the try that follows these.
double longest_wait(int tries, const S3ClientOptions& options) {
  double longest = static_cast<double>(options.first_wait.count());
  for (int i = 1; i < tries; ++i) longest *= 2;
  return std::min(longest, static_cast<double>(options.max_wait.count()));
}

// A name that S3 has put into an answer, for a message.
std::string shown_part(std::string_view text) { return shown(text.substr(0, 300)); }

}  // namespace

Result<std::unique_ptr<S3Client>> S3Client::open(const std::string& url,
                                                 const S3ClientOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(S3Settings settings, read_s3_settings(url, environment_variable));
  S3ClientOptions own = options;
  own.http.ca_file = settings.ca_file;
  std::unique_ptr<S3Client> made(new S3Client(url, std::move(settings), own));
  SPARCL_ASSIGN_OR_RETURN(made->http_, net::HttpClient::open(own.http));
  return made;
}

std::string S3Client::location(std::string_view key) const {
  return fmt::format("s3://{}{}{}", settings_.bucket, key.empty() ? "" : "/", key);
}

AwsKeys S3Client::keys() const {
  const std::lock_guard lock(changing_);
  return settings_.keys;
}

// Others renew keys in the files of AWS. True: there are other ones now.
bool S3Client::has_new_keys(const AwsKeys& used) {
  Result<S3Settings> now = read_s3_settings(url_, environment_variable);
  if (!now.ok()) return false;
  const std::lock_guard lock(changing_);
  settings_.keys = std::move(now->keys);
  return settings_.keys != used;
}

Result<S3Answer> S3Client::try_once(const S3Request& request, const std::string& body_sha256,
                                    SteadyTime deadline) {
  const AwsKeys keys = this->keys();
  const AwsScope scope{aws_time(::time(nullptr)), settings_.region, "s3"};
  RequestToSign to_sign{request.method, settings_.path_of(request.key), request.query,
                        request.headers, body_sha256};
  to_sign.headers.emplace_back("host", settings_.host);
  to_sign.headers.emplace_back("x-amz-date", scope.time);
  to_sign.headers.emplace_back("x-amz-content-sha256", body_sha256);
  if (!keys.session_token.empty())
    to_sign.headers.emplace_back("x-amz-security-token", keys.session_token);
  SPARCL_ASSIGN_OR_RETURN(const std::string signature, authorization(to_sign, keys, scope));

  net::HttpRequest http;
  http.method = request.method;
  http.url = fmt::format("{}://{}{}", settings_.scheme, settings_.host, to_sign.path);
  if (!request.query.empty()) http.url += "?" + query_text(request.query);
  http.headers = std::move(to_sign.headers);
  http.headers.emplace_back("authorization", signature);
  http.body.assign(request.body.begin(), request.body.end());
  http.sink = request.sink;
  http.max_bytes = request.max_bytes;
  http.deadline = deadline;
  S3Answer answer;
  SPARCL_ASSIGN_OR_RETURN(answer.http, http_->perform(http));
  if (!answer.is_success()) {
    const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
    answer.error = parse_s3_error({text, answer.http.body.size()});
  }
  return answer;
}

Result<S3Answer> S3Client::send(const S3Request& request) {
  const SteadyTime own_deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(options_.timeout);
  const SteadyTime deadline = std::min(own_deadline, deadline_.load());
  SPARCL_ASSIGN_OR_RETURN(const std::string body_sha256, sha256_hex(request.body));
  bool has_taken = false;
  net::HttpSink sink;
  S3Request own = request;
  if (request.sink != nullptr) {
    sink.begin = request.sink->begin;
    sink.take = [&](std::span<const std::byte> bytes) {
      has_taken = true;
      return request.sink->take(bytes);
    };
    own.sink = &sink;
  }
  thread_local std::minstd_rand random{std::random_device{}()};
  bool has_stalled = false;
  for (int tries = 1;; ++tries) {
    const AwsKeys used = keys();
    Result<S3Answer> answer = try_once(own, body_sha256, deadline);
    const Code code = answer.status().code();
    const bool is_lost =
        code == Code::kRemoteError || (code == Code::kTimeout && !std::exchange(has_stalled, true));
    const bool may_repeat =
        answer.ok() ? is_busy(*answer) || (is_conflict(*answer) && request.repeats_conflicts) ||
                          (tries == 1 && has_expired(*answer) && has_new_keys(used))
                    : is_lost && !has_taken;
    const Milliseconds wait(
        std::uniform_real_distribution<double>(0, longest_wait(tries, options_))(random));
    const bool is_late = std::chrono::steady_clock::now() + wait >= deadline;
    if (!may_repeat || tries == options_.max_tries || is_late) {
      if (answer.ok()) {
        answer->tries = tries;
        return answer;
      }
      return no_answer(request, answer.status(), tries);
    }
    log_debug("{}: {}: try {}: {}", location(request.key), request.method, tries,
              answer.ok()
                  ? fmt::format("HTTP {} {}", answer->status(), shown_part(answer->error.code))
                  : shown_line(answer.status().message()));
    std::this_thread::sleep_for(wait);
  }
}

Status S3Client::no_answer(const S3Request& request, const Status& why, int tries) const {
  std::string text =
      fmt::format("{}: {}: {}", location(request.key), request.method, shown_line(why.message()));
  if (tries > 1) text += fmt::format(" ({} tries)", tries);
  if (why.code() == Code::kRemoteError || why.code() == Code::kTimeout)
    text += fmt::format(": is {} right (AWS_ENDPOINT_URL_S3), and does it run?", settings_.host);
  return Status(why.code(), text);
}

Status S3Client::error_of(const S3Request& request, const S3Answer& answer) const {
  std::string text =
      fmt::format("{}: {}: HTTP {}", location(request.key), request.method, answer.status());
  if (!answer.error.code.empty()) text += " " + shown_part(answer.error.code);
  if (!answer.error.message.empty()) text += ": " + shown_part(answer.error.message);
  if (answer.tries > 1) text += fmt::format(" ({} tries)", answer.tries);
  if (answer.error.code == "RequestTimeTooSkewed")
    return Status(
        Code::kUnauthorized,
        fmt::format("{}: this machine's clock says {}, and the server's '{}': set the "
                    "clock",
                    text, aws_time(::time(nullptr)), shown_part(answer.http.header("date"))));
  const S3Advice advice = advice_of(answer);
  std::string region(answer.http.header("x-amz-bucket-region"));
  if (region.empty()) region = answer.error.region;
  text += fmt::format(": {}", advice.next);
  if (!region.empty() && region != settings_.region)
    text += fmt::format(" (the bucket is in {}, and the requests were for {})", shown_part(region),
                        settings_.region);
  return Status(advice.result, text);
}

}  // namespace sparcl::store
