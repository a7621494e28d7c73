#include "src/store/s3/s3_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <map>
#include <mutex>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/base/shown_text.hpp"
#include "src/store/random_name.hpp"
#include "src/store/s3/s3_range.hpp"
#include "src/store/s3/s3_ranges.hpp"
#include "src/store/staged_pieces.hpp"

namespace sparcl::store {
namespace {

constexpr std::string_view kProbe = ".sparcl-probe";           // no key: list() leaves it out
constexpr const char* kNonceHeader = "x-amz-meta-sparcl-put";  // of one put, by chance
constexpr std::size_t kMaxListBytes = 16 << 20;                // of a page: 1,000 keys
constexpr std::int64_t kUploadSeconds = 86'400;  // heuristic: longer than any upload takes
const NamedTexts kIfAbsent{{"if-none-match", "*"}};

// What probes have found, by server and bucket: for all stores of the process.
class ProbeResults {
 public:
  std::optional<bool> find(const std::string& name) {
    const std::lock_guard lock(using_);
    const auto found = excludes_writers_.find(name);
    return found == excludes_writers_.end() ? std::nullopt : std::optional(found->second);
  }
  void keep(const std::string& name, bool excludes_writers) {
    const std::lock_guard lock(using_);
    excludes_writers_[name] = excludes_writers;
  }

 private:
  std::mutex using_;
  std::map<std::string, bool> excludes_writers_;
};
ProbeResults& probe_results() {
  static ProbeResults* const all = new ProbeResults;
  return *all;
}

NamedTexts headers_of(const std::string& nonce) {
  return {{"content-type", "application/octet-stream"}, {kNonceHeader, nonce}};
}

bool is_absent(const S3Answer& answer) {
  return answer.status() == 404 && answer.error.code != "NoSuchBucket";
}

Result<std::uint64_t> length_of(const net::HttpAnswer& answer) {
  const std::string_view text = answer.header("content-length");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error == std::errc() && end == text.data() + text.size()) return length;
  return corrupt("the answer does not say its length (Content-Length)");
}

Status too_large(std::uint64_t bytes, std::size_t max_bytes) {
  return corrupt(fmt::format("it has {} bytes, and at most {} are read", bytes, max_bytes));
}

std::uint64_t total_of(Pieces bytes) {
  std::uint64_t total = 0;
  for (const std::span<const std::byte> piece : bytes) total += piece.size();
  return total;
}

// Fills the memory that a PieceSink gives, piece by piece.
class PieceFilling {
 public:
  PieceFilling(std::uint64_t bytes, std::uint64_t first, const PieceSink& sink)
      : bytes_(bytes), sink_(sink), first_(first) {}
  Status take(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (filled_ == piece_.size()) {
        piece_ = sink_.memory(first_, static_cast<std::size_t>(
                                          std::min<std::uint64_t>(kPieceBytes, bytes_ - first_)));
        filled_ = 0;
      }
      const std::size_t count = std::min(bytes.size(), piece_.size() - filled_);
      std::memcpy(piece_.data() + filled_, bytes.data(), count);
      filled_ += count;
      bytes = bytes.subspan(count);
      if (filled_ < piece_.size()) continue;
      first_ += filled_;
      SPARCL_RETURN_IF_ERROR(sink_.take(piece_));
    }
    return {};
  }

 private:
  const std::uint64_t bytes_;
  const PieceSink& sink_;
  std::uint64_t first_;
  std::span<std::byte> piece_;
  std::size_t filled_ = 0;
};

}  // namespace

Result<std::unique_ptr<ObjectStore>> S3Store::open(const std::string& url) {
  S3StoreOptions options;
  SPARCL_ASSIGN_OR_RETURN(const double seconds, setting_number("TIMEOUT_S"));
  options.client.timeout = std::chrono::duration<double>(seconds);
  return open(url, options);
}

Result<std::unique_ptr<ObjectStore>> S3Store::open(const std::string& url,
                                                   const S3StoreOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(std::unique_ptr<S3Client> client, S3Client::open(url, options.client));
  return std::unique_ptr<ObjectStore>(new S3Store(std::move(client), options));
}

std::string S3Store::full_key(std::string_view key) const {
  const std::string& prefix = client_->settings().prefix;
  return prefix.empty() ? std::string(key) : fmt::format("{}/{}", prefix, key);
}

std::string S3Store::location_of(std::string_view key) const {
  return client_->location(full_key(key));
}

// "": it was put. Else the code of the refusal.
Result<std::string> S3Store::put_probe() {
  constexpr std::string_view kText = "whether this server honours If-None-Match\n";
  const std::span<const std::byte> body = std::as_bytes(std::span(kText.data(), kText.size()));
  S3Request request;
  request.method = "PUT";
  request.key = full_key(kProbe);
  request.headers = kIfAbsent;
  request.body = {&body, 1};
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
  if (answer.is_success()) return std::string();
  if (answer.status() == 412) return std::string("PreconditionFailed");
  if (answer.status() == 501) return std::string("NotImplemented");
  return client_->error_of(request, answer);
}

Result<bool> S3Store::probe() {
  for (int tries = 0; tries < 2; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(const std::string refusal, put_probe());
    if (!refusal.empty()) return refusal == "PreconditionFailed";
  }
  return false;
}

Result<StoreCapabilities> S3Store::capabilities() {
  const S3Settings& settings = client_->settings();
  const std::string name =
      fmt::format("{}://{}/{}", settings.scheme, settings.host, settings.bucket);
  if (const std::optional<bool> known = probe_results().find(name))
    return StoreCapabilities{*known};
  SPARCL_ASSIGN_OR_RETURN(const bool excludes_writers, probe());
  probe_results().keep(name, excludes_writers);
  return StoreCapabilities{excludes_writers};
}

Result<std::optional<ObjectInfo>> S3Store::look(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  S3Request request;
  request.method = "HEAD";
  request.key = full_key(key);
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
  if (is_absent(answer)) return std::optional<ObjectInfo>();
  if (!answer.is_success()) return client_->error_of(request, answer);
  const Result<std::uint64_t> bytes = length_of(answer.http);
  const auto time = seconds_of_http_date(answer.http.header("last-modified"));
  if (!bytes.ok()) return bytes.status().with_prefix(location_of(key) + ": ");
  if (!time)  // ages decide what is removed
    return corrupt(location_of(key) + ": the answer does not say its time (Last-Modified)");
  return std::optional(ObjectInfo{key, *bytes, *time});
}

Result<std::optional<std::vector<std::byte>>> S3Store::read_all(const std::string& key,
                                                                std::size_t max_bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  std::vector<std::byte> content;
  std::uint64_t length = 0;
  const net::HttpSink sink{[&](const net::HttpAnswer& head) -> Status {
                             SPARCL_ASSIGN_OR_RETURN(length, length_of(head));
                             return length > max_bytes ? too_large(length, max_bytes) : Status();
                           },
                           [&](std::span<const std::byte> bytes) -> Status {
                             content.insert(content.end(), bytes.begin(), bytes.end());
                             return content.size() > length ? too_large(content.size(), max_bytes)
                                                            : Status();
                           }};
  S3Request request;
  request.key = full_key(key);
  request.sink = &sink;
  constexpr int kMaxCuts = 4;  // after the first byte: send() repeats nothing then
  for (int cuts = 0;; ++cuts) {
    content.clear();
    const Result<S3Answer> answer = client_->send(request);
    if (answer.ok()) {
      if (is_absent(*answer)) return std::optional<std::vector<std::byte>>();
      if (!answer->is_success()) return client_->error_of(request, *answer);
      return std::optional(std::move(content));
    }
    const bool is_cut = answer.status().code() == Code::kRemoteError && !content.empty();
    if (!is_cut || cuts == kMaxCuts) return answer.status();
  }
}

Result<bool> S3Store::read(const std::string& key, std::uint64_t first, std::span<std::byte> into) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  if (into.empty() || first > UINT64_MAX - into.size()) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> info, look(key));
    if (!info) return false;
    if (into.empty() && first <= info->bytes) return true;
    return Status(Code::kCorrupt,
                  fmt::format("{}: it has {} bytes, and {} bytes from byte {} on are wanted",
                              location_of(key), info->bytes, into.size(), first));
  }
  std::size_t done = 0;
  return read_s3_range(*client_, {full_key(key), first, into.size(), std::nullopt},
                       [&](std::span<const std::byte> bytes) {
                         std::memcpy(into.data() + done, bytes.data(), bytes.size());
                         done += bytes.size();
                         return Status();
                       });
}

Result<bool> S3Store::read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                                 const PieceSink& sink) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  PieceFilling filling(bytes, first, sink);
  return read_s3_ranges(*client_, full_key(key), first, bytes, options_.ranges,
                        [&](std::span<const std::byte> piece) { return filling.take(piece); });
}

Result<PutResult> S3Store::put(const std::string& key, Pieces bytes, const std::string& nonce,
                               const NamedTexts& condition) {
  const NamedTexts headers = headers_of(nonce);
  if (total_of(bytes) > options_.part_bytes)
    return upload_in_parts(*client_,
                           {full_key(key), bytes, headers, condition, options_.part_bytes});
  S3Request request;
  request.method = "PUT";
  request.key = full_key(key);
  request.headers = headers;
  request.headers.insert(request.headers.end(), condition.begin(), condition.end());
  request.body = bytes;
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
  if (answer.is_success()) return PutResult::kIsPut;
  if (answer.status() == 412 && !condition.empty()) return PutResult::kIsUnsure;
  return client_->error_of(request, answer);
}

// Whether the object that is there is that of one put.
Result<bool> S3Store::has_nonce(const std::string& key, const std::string& nonce) {
  S3Request request;
  request.method = "HEAD";
  request.key = full_key(key);
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
  if (answer.is_success()) return answer.http.header(kNonceHeader) == nonce;
  if (!is_absent(answer)) return client_->error_of(request, answer);
  return Status(Code::kRemoteError,
                fmt::format("{}: it was put, or another writer's was, and now it is not there: "
                            "repeat the call",
                            location_of(key)));
}

Result<bool> S3Store::put_if_absent(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  SPARCL_ASSIGN_OR_RETURN(const StoreCapabilities can, capabilities());
  if (!can.excludes_writers || total_of(bytes) > options_.part_bytes) {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> there, look(key));
    if (there) return false;
  }
  SPARCL_ASSIGN_OR_RETURN(const std::string nonce, random_name());
  SPARCL_ASSIGN_OR_RETURN(const PutResult result,
                          put(key, bytes, nonce, can.excludes_writers ? kIfAbsent : NamedTexts()));
  if (result == PutResult::kIsUnsure) return has_nonce(key, nonce);
  return result == PutResult::kIsPut;
}

// Keeps a part until it is full, and another byte comes. What fits into one part is put at once.
class S3Store::Writer final : public ObjectWriter {
 public:
  Writer(S3Store& store, std::string key, std::string nonce, std::uint64_t part_bytes)
      : store_(store), key_(std::move(key)), nonce_(std::move(nonce)), part_bytes_(part_bytes) {}

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      if (filled_ == part_bytes_) SPARCL_RETURN_IF_ERROR(put_part());
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), part_bytes_ - filled_));
      part_.write(filled_, bytes.first(count));
      filled_ += count;
      bytes = bytes.subspan(count);
    }
    return {};
  }
  Result<bool> finish() override {
    if (!upload_) return store_.put_if_absent(key_, StagedPieces(part_, filled_).pieces());
    SPARCL_RETURN_IF_ERROR(put_part());
    SPARCL_ASSIGN_OR_RETURN(const StoreCapabilities can, store_.capabilities());
    SPARCL_ASSIGN_OR_RETURN(const std::optional<ObjectInfo> there, store_.look(key_));
    if (there) return false;
    SPARCL_ASSIGN_OR_RETURN(const PartsUpload::Completion done,
                            upload_->finish(can.excludes_writers ? kIfAbsent : NamedTexts()));
    if (done.is_conflict)
      return Status(Code::kRemoteError,
                    store_.location_of(key_) +
                        ": another writer put this object at the same time: repeat the call");
    if (done.result == PutResult::kIsUnsure) return store_.has_nonce(key_, nonce_);
    return true;
  }

 private:
  Status put_part() {
    if (!upload_) {
      SPARCL_ASSIGN_OR_RETURN(
          PartsUpload begun,
          PartsUpload::begin(*store_.client_, store_.full_key(key_), headers_of(nonce_)));
      upload_.emplace(std::move(begun));
    }
    SPARCL_RETURN_IF_ERROR(upload_->add(StagedPieces(part_, filled_).pieces()));
    filled_ = 0;
    return {};
  }

  S3Store& store_;
  std::string key_, nonce_;
  std::uint64_t part_bytes_;
  Staging part_;
  std::uint64_t filled_ = 0;
  std::optional<PartsUpload> upload_;
};

Result<std::unique_ptr<ObjectWriter>> S3Store::begin(const std::string& key,
                                                     std::uint64_t max_bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  SPARCL_ASSIGN_OR_RETURN(std::string nonce, random_name());
  return std::unique_ptr<ObjectWriter>(std::make_unique<Writer>(
      *this, key, std::move(nonce), part_bytes_of(max_bytes, options_.part_bytes)));
}

Result<std::uint64_t> S3Store::remove_unfinished(std::int64_t before_s) {
  // Only the beginning of an upload is known, and a writer may still be at it.
  const Result<std::uint64_t> removed =
      abort_uploads(*client_, full_key(""), before_s - kUploadSeconds);
  if (removed.ok()) return removed;
  log_warn(
      "{}: parts of unfinished uploads, if there are any, stay: a lifecycle rule of the bucket "
      "(AbortIncompleteMultipartUpload) removes them: {}",
      location_of(""), shown_line(removed.status().message()));
  return std::uint64_t{0};
}

Status S3Store::replace(const std::string& key, Pieces bytes) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  SPARCL_ASSIGN_OR_RETURN(const std::string nonce, random_name());
  SPARCL_ASSIGN_OR_RETURN(const PutResult result, put(key, bytes, nonce, {}));
  if (result == PutResult::kIsPut) return {};
  SPARCL_ASSIGN_OR_RETURN(const bool is_there, has_nonce(key, nonce));
  if (is_there) return {};
  return Status(Code::kRemoteError, location_of(key) + ": another writer has replaced it");
}

Status S3Store::no_list(const Status& why) const {
  const S3Settings& settings = client_->settings();
  return Status(
      why.code(),
      fmt::format("{}: the list: {}: is {}://{} a server of S3 (AWS_ENDPOINT_URL_S3)?",
                  location_of(""), shown_line(why.message()), settings.scheme, settings.host));
}

Status S3Store::list(const std::string& prefix,
                     const std::function<bool(const ObjectInfo&)>& visit) {
  if (!prefix.empty()) SPARCL_RETURN_IF_ERROR(check_key(prefix));
  const std::string root = full_key("");
  const std::string below = prefix.empty() ? root : full_key(prefix) + "/";
  const std::string location = client_->location(below) + ": ";
  std::string token, last;
  ListCount count(location);
  for (std::uint64_t pages = 0;;) {
    S3Request request;
    request.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", below}};
    if (!token.empty()) request.query.emplace_back("continuation-token", token);
    request.max_bytes = kMaxListBytes;
    SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
    if (!answer.is_success()) return client_->error_of(request, answer);
    const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
    const Result<S3Page> page = parse_s3_page({text, answer.http.body.size()});
    if (!page.ok()) return no_list(page.status());
    for (const S3Object& each : page->objects) {
      if (each.key <= last || !each.key.starts_with(below))
        return corrupt(location + "the list is not in ascending order, or has other objects");
      last = each.key;
      SPARCL_RETURN_IF_ERROR(count.add());
      ObjectInfo info{each.key.substr(root.size()), each.bytes, each.written_s};
      if (check_key(info.key).ok() && !visit(info)) return {};  // others are not of the store
    }
    if (page->next.empty()) return {};
    if (page->objects.empty())
      return corrupt(location + "a part of the list is empty, and is not the last one");
    if (page->next == token)
      return corrupt(location + "the list does not go on: the next part has the same token");
    if (++pages == options_.max_list_pages)
      return corrupt(
          fmt::format("{}the list has no end: {} parts came, and another one is to "
                      "come: is it the right server and prefix?",
                      location, pages));
    token = page->next;
  }
}

Status S3Store::remove(const std::string& key) {
  SPARCL_RETURN_IF_ERROR(check_key(key));
  S3Request request;
  request.method = "DELETE";
  request.key = full_key(key);
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client_->send(request));
  if (answer.is_success() || is_absent(answer)) return {};
  return client_->error_of(request, answer);
}

}  // namespace sparcl::store
