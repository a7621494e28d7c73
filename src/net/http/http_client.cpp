#include "src/net/http/http_client.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <mutex>

#include "src/base/caught_error.hpp"
#include "src/net/http/curl_library.hpp"

namespace sparcl::net {
namespace {

constexpr std::size_t kMaxHeaderBytes = 64 << 10;  // of an answer
constexpr long kReceiveBytes = 256 << 10;          // of libcurl's buffer: fewer calls

// TLS writes to sockets without MSG_NOSIGNAL. The kernel sends SIGPIPE to the thread that writes:
// there it is blocked, and taken back unless it was pending before.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    was_pending_ = ::sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
    const timespec now{};
    if (!was_pending_) (void)::sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpaces = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// One request while libcurl calls back.
class Exchange {
 public:
  Exchange(const HttpRequest& request, const CurlLibrary& curl, CURL* handle)
      : request_(request), curl_(curl), handle_(handle) {}

  HttpAnswer answer;
  Status refused;  // by a sink or a limit: libcurl was told to stop

  static std::size_t on_header(char* data, std::size_t, std::size_t count, void* self) {
    const auto take = [&](Exchange& own) { return own.take_header({data, count}); };
    return without_exceptions(self, take) ? count : 0;
  }
  static std::size_t on_body(char* data, std::size_t, std::size_t count, void* self) {
    const std::span<const char> text(data, count);
    const auto take = [&](Exchange& own) { return own.take_body(std::as_bytes(text)); };
    return without_exceptions(self, take) ? count : 0;
  }
  static std::size_t on_send(char* data, std::size_t size, std::size_t count, void* self) {
    return static_cast<Exchange*>(self)->give_body(data, size * count);
  }
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto look = [](Exchange& own) { return !own.request_.is_cancelled(); };
    return without_exceptions(self, look) ? 0 : 1;
  }
  static int on_seek(void* self, curl_off_t offset, int origin) {
    static_cast<Exchange*>(self)->sent_ = static_cast<std::uint64_t>(offset);
    return origin == SEEK_SET ? CURL_SEEKFUNC_OK : CURL_SEEKFUNC_CANTSEEK;
  }

  // Nothing is thrown through libcurl.
  template <class Take>
  static bool without_exceptions(void* self, Take&& take) noexcept {
    auto& own = *static_cast<Exchange*>(self);
    try {
      return take(own);
    } catch (...) {
      own.refused = caught_error("an answer of HTTP could not be taken");
      return false;
    }
  }

  // What is left to do when libcurl has returned.
  Status finish() {
    if (!refused.ok()) return refused;
    return begin_body() ? Status() : refused;
  }

 private:
  bool take_header(std::string_view line) {
    header_bytes_ += line.size();
    if (header_bytes_ > kMaxHeaderBytes) {
      refused = corrupt("the headers of the answer have more than 64 KiB");
      return false;
    }
    if (line.starts_with("HTTP/")) answer.headers.clear();  // after "100 Continue"
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      answer.headers.emplace_back(lower_case(trimmed(line.substr(0, colon))),
                                  trimmed(line.substr(colon + 1)));
    return true;
  }
  bool begin_body() {
    if (has_begun_) return true;
    has_begun_ = true;
    long status = 0;
    curl_.easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    answer.status = static_cast<int>(status);
    if (request_.sink == nullptr || !answer.is_success()) return true;
    refused = request_.sink->begin(answer);
    return refused.ok();
  }
  bool take_body(std::span<const std::byte> bytes) {
    if (!begin_body()) return false;
    if (request_.sink != nullptr && answer.is_success()) {
      refused = request_.sink->take(bytes);
      return refused.ok();
    }
    if (bytes.size() > request_.max_bytes - answer.body.size()) {
      refused = corrupt(
          fmt::format("the answer has more than {} bytes, which are read", request_.max_bytes));
      return false;
    }
    answer.body.insert(answer.body.end(), bytes.begin(), bytes.end());
    return true;
  }
  std::size_t give_body(char* into, std::size_t room) {
    std::uint64_t before = 0;
    for (const std::span<const std::byte> piece : request_.body) {
      if (sent_ < before + piece.size()) {
        const auto at = static_cast<std::size_t>(sent_ - before);
        const std::size_t count = std::min(room, piece.size() - at);
        std::memcpy(into, piece.data() + at, count);
        sent_ += count;
        return count;
      }
      before += piece.size();
    }
    return 0;
  }

  const HttpRequest& request_;
  const CurlLibrary& curl_;
  CURL* handle_;
  bool has_begun_ = false;
  std::size_t header_bytes_ = 0;
  std::uint64_t sent_ = 0;
};

Status status_of(CURLcode code, const CurlLibrary& curl, const char* detail,
                 const std::string& ca_variable) {
  const std::string text = *detail != '\0' ? detail : curl.easy_strerror(code);
  switch (code) {
    case CURLE_OUT_OF_MEMORY:
      return no_memory();
    case CURLE_ABORTED_BY_CALLBACK:
      return Status(Code::kTimeout, "the request was cancelled");
    case CURLE_OPERATION_TIMEDOUT:
      return Status(Code::kTimeout, text);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
      return Status(
          Code::kUnauthorized,
          fmt::format("{}: name a file with the authority's certificate in {}", text, ca_variable));
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return Status(Code::kInvalidArgument, text);
    default:
      return Status(Code::kRemoteError, text);
  }
}

class CurlClient final : public HttpClient {
 public:
  CurlClient(const CurlLibrary& curl, const HttpOptions& options)
      : curl_(curl), options_(options) {}
  ~CurlClient() override {
    for (CURL* const handle : idle_) curl_.easy_cleanup(handle);
  }

  Result<HttpAnswer> perform(const HttpRequest& request) override {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        request.deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Status(Code::kTimeout, "no time is left for the request");
    CURL* const handle = take_handle();
    if (handle == nullptr) return no_memory();
    const PipeSignalHeld held;
    Exchange exchange(request, curl_, handle);
    char detail[CURL_ERROR_SIZE] = "";
    curl_slist* const lines = prepare(handle, request, exchange, left, detail);
    const CURLcode code = lines == nullptr ? CURLE_OUT_OF_MEMORY : curl_.easy_perform(handle);
    Status status = exchange.refused;
    if (status.ok() && code != CURLE_OK)
      status = status_of(code, curl_, detail, options_.ca_variable);
    if (status.ok()) status = exchange.finish();
    curl_.slist_free_all(lines);
    give_back(handle);
    SPARCL_RETURN_IF_ERROR(status);
    return std::move(exchange.answer);
  }

 private:
  CURL* take_handle() {
    const std::lock_guard lock(pool_);
    if (idle_.empty()) return curl_.easy_init();
    CURL* const handle = idle_.back();
    idle_.pop_back();
    return handle;
  }
  void give_back(CURL* handle) {
    curl_.easy_reset(handle);  // its connections stay
    const std::lock_guard lock(pool_);
    idle_.push_back(handle);
  }

  template <class Value>
  void set(CURL* handle, CURLoption option, Value value) const {
    curl_.easy_setopt(handle, option, value);
  }
  // nullptr: no memory. The list lives until the request is over.
  curl_slist* prepare(CURL* handle, const HttpRequest& request, Exchange& exchange,
                      std::chrono::milliseconds left, char* detail) const {
    set(handle, CURLOPT_URL, request.url.c_str());
    set(handle, CURLOPT_PROTOCOLS_STR, request.url.starts_with("https:") ? "https" : "http");
    set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(handle, CURLOPT_PATH_AS_IS, 1L);
    set(handle, CURLOPT_FOLLOWLOCATION, 0L);
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_ERRORBUFFER, detail);
    set(handle, CURLOPT_BUFFERSIZE, kReceiveBytes);
    set(handle, CURLOPT_TCP_KEEPALIVE, 1L);
    set(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
    set(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_timeout.count()));
    set(handle, CURLOPT_TIMEOUT_MS,
        static_cast<long>(std::min<std::int64_t>(left.count(), 1L << 30)));
    if (!options_.ca_file.empty()) set(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
    if (request.is_cancelled) {
      set(handle, CURLOPT_NOPROGRESS, 0L);
      set(handle, CURLOPT_XFERINFOFUNCTION, &Exchange::on_progress);
      set(handle, CURLOPT_XFERINFODATA, static_cast<void*>(&exchange));
    }
    set(handle, CURLOPT_HEADERFUNCTION, &Exchange::on_header);
    set(handle, CURLOPT_HEADERDATA, static_cast<void*>(&exchange));
    set(handle, CURLOPT_WRITEFUNCTION, &Exchange::on_body);
    set(handle, CURLOPT_WRITEDATA, static_cast<void*>(&exchange));
    if (request.method == "HEAD") set(handle, CURLOPT_NOBODY, 1L);
    if (request.method == "PUT" || request.method == "POST") {
      curl_off_t bytes = 0;
      for (const std::span<const std::byte> piece : request.body)
        bytes += static_cast<curl_off_t>(piece.size());
      set(handle, CURLOPT_UPLOAD, 1L);
      set(handle, CURLOPT_INFILESIZE_LARGE, bytes);
      set(handle, CURLOPT_READFUNCTION, &Exchange::on_send);
      set(handle, CURLOPT_READDATA, static_cast<void*>(&exchange));
      set(handle, CURLOPT_SEEKFUNCTION, &Exchange::on_seek);
      set(handle, CURLOPT_SEEKDATA, static_cast<void*>(&exchange));
    }
    if (request.method != "GET" && request.method != "HEAD")
      set(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_slist* lines = curl_.slist_append(nullptr, "Expect:");
    for (const auto& [name, value] : request.headers) {
      curl_slist* const longer =
          lines == nullptr ? nullptr : curl_.slist_append(lines, (name + ": " + value).c_str());
      if (longer == nullptr) curl_.slist_free_all(lines);
      lines = longer;
    }
    set(handle, CURLOPT_HTTPHEADER, lines);
    return lines;
  }

  const CurlLibrary& curl_;
  const HttpOptions options_;
  std::mutex pool_;
  std::vector<CURL*> idle_;
};

}  // namespace

Result<std::unique_ptr<HttpClient>> HttpClient::open(const HttpOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(const CurlLibrary* const curl, load_curl());
  return std::unique_ptr<HttpClient>(new CurlClient(*curl, options));
}

}  // namespace sparcl::net
