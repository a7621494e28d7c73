#pragma once
// HTTP/1.1 requests to one server or several, over libcurl. libcurl is loaded when the first client
// is opened: no program that makes no requests needs it. Redirects are not followed. Certificates
// of https are verified.

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl::net {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in lower case

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;
  std::vector<std::byte> body;  // unless a sink has taken it

  bool is_success() const { return status >= 200 && status < 300; }
  // "" if there is none.
  std::string_view header(std::string_view name) const;
};

// Takes the body of a successful answer while it arrives. An error ends the request, and is its
// result.
struct HttpSink {
  std::function<Status(const HttpAnswer& head)> begin;  // before the first byte, also if none comes
  std::function<Status(std::span<const std::byte>)> take;
};

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  HttpHeaders headers;
  std::vector<std::span<const std::byte>> body;
  const HttpSink* sink = nullptr;
  std::size_t max_bytes = 64 << 10;  // of a body that no sink takes
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> is_cancelled;  // asked once a second or more often; may be empty
};

struct HttpOptions {
  std::string ca_file;                        // of certificates; "": the system's
  std::string ca_variable = "AWS_CA_BUNDLE";  // that names ca_file, for errors
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::seconds stall_timeout{20};  // of a connection on which nothing moves
};

// Each call may come from any thread. Connections are kept for later requests.
class HttpClient {
 public:
  // Unsupported: the library was built without libcurl, or libcurl is not installed.
  static Result<std::unique_ptr<HttpClient>> open(const HttpOptions& options);
  virtual ~HttpClient() = default;

  // Any status of HTTP is an answer. RemoteError, Timeout (also if cancelled): none came, or not
  // all of it; the request may have had its effect. Unauthorized: the server's certificate is not
  // trusted. Corrupt: more than max_bytes came.
  virtual Result<HttpAnswer> perform(const HttpRequest& request) = 0;
};

}  // namespace sparcl::net
