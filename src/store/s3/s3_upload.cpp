#include "src/store/s3/s3_upload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kMaxUploadsBytes = 16 << 20;  // of a page: 1,000 uploads
constexpr int kMaxUploadPages = 1000;
constexpr int kMaxCompletions = 5;  // of one upload, and of uploads after a conflict

std::uint64_t total_bytes(Pieces pieces) {
  std::uint64_t total = 0;
  for (const std::span<const std::byte> piece : pieces) total += piece.size();
  return total;
}

// The tag that S3 gives to the part.
Result<std::string> put_part(S3Client& client, const S3Request& request, std::uint64_t number) {
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
  if (!answer.is_success()) return client.error_of(request, answer);
  std::string tag(answer.http.header("etag"));
  const auto is_odd = [](char c) { return c < 0x20 || c == '<' || c == '&'; };
  if (tag.empty() || std::ranges::any_of(tag, is_odd))
    return Status(Code::kCorrupt, fmt::format("{}: the server gives part {} no tag (ETag)",
                                              client.location(request.key), number));
  return tag;
}

// An answer with status 200 may be an error, which S3 has met after it began to answer.
bool turn_into_error(S3Answer& answer) {
  if (!answer.is_success()) return true;
  const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
  answer.error = parse_s3_error({text, answer.http.body.size()});
  return !answer.error.code.empty();
}

// The parts would be paid for.
Status abort_upload(S3Client& client, const std::string& key, const std::string& id) {
  S3Request request;
  request.method = "DELETE";
  request.key = key;
  request.query = {{"uploadId", id}};
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
  return answer.is_success() || answer.status() == 404 ? Status()
                                                       : client.error_of(request, answer);
}

Result<PartsUpload::Completion> upload_once(S3Client& client, const UploadRequest& own) {
  SPARCL_ASSIGN_OR_RETURN(PartsUpload upload, PartsUpload::begin(client, own.key, own.headers));
  const std::uint64_t total = total_bytes(own.bytes);
  for (std::uint64_t first = 0; first < total; first += own.part_bytes) {
    const auto part = slice_of(own.bytes, first, std::min(own.part_bytes, total - first));
    SPARCL_RETURN_IF_ERROR(upload.add(part));
  }
  return upload.finish(own.condition);
}

}  // namespace

std::uint64_t part_bytes_of(std::uint64_t object_bytes, std::uint64_t smallest) {
  const std::uint64_t needed = object_bytes / kMaxParts + 1;
  return std::max(smallest, (needed + kMiB - 1) / kMiB * kMiB);
}

std::vector<std::span<const std::byte>> slice_of(Pieces pieces, std::uint64_t first,
                                                 std::uint64_t count) {
  std::vector<std::span<const std::byte>> slice;
  std::uint64_t before = 0;
  for (const std::span<const std::byte> piece : pieces) {
    const std::uint64_t begin = std::max(first, before),
                        end = std::min(first + count, before + piece.size());
    if (begin < end)
      slice.push_back(piece.subspan(static_cast<std::size_t>(begin - before),
                                    static_cast<std::size_t>(end - begin)));
    before += piece.size();
  }
  return slice;
}

Result<PartsUpload> PartsUpload::begin(S3Client& client, const std::string& key,
                                       const NamedTexts& headers) {
  S3Request request;
  request.method = "POST";
  request.key = key;
  request.query = {{"uploads", ""}};
  request.headers = headers;
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
  if (!answer.is_success()) return client.error_of(request, answer);
  const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
  Result<std::string> id = parse_upload_id({text, answer.http.body.size()});
  if (!id.ok()) return id.status().with_prefix(client.location(key) + ": ");
  return PartsUpload(client, key, std::move(*id));
}

PartsUpload::PartsUpload(PartsUpload&& other) noexcept
    : client_(other.client_),
      key_(std::move(other.key_)),
      id_(std::exchange(other.id_, {})),
      list_(std::move(other.list_)),
      count_(other.count_) {}

PartsUpload::~PartsUpload() {
  if (id_.empty()) return;
  const Status aborted = abort_upload(*client_, key_, id_);
  if (aborted.ok()) return;
  log_warn("{}: parts of an unfinished upload are left, which pruning removes later: {}",
           client_->location(key_), shown_line(aborted.message()));
}

Status PartsUpload::add(Pieces part) {
  S3Request request;
  request.method = "PUT";
  request.key = key_;
  request.query = {{"partNumber", std::to_string(++count_)}, {"uploadId", id_}};
  request.body = part;
  SPARCL_ASSIGN_OR_RETURN(const std::string tag, put_part(*client_, request, count_));
  list_ += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", count_, tag);
  return {};
}

Result<PartsUpload::Completion> PartsUpload::finish(const NamedTexts& condition) {
  const std::string list = "<CompleteMultipartUpload>" + list_ + "</CompleteMultipartUpload>";
  const std::span<const std::byte> body = std::as_bytes(std::span(list));
  S3Request request;
  request.method = "POST";
  request.key = key_;
  request.query = {{"uploadId", id_}};
  request.headers = condition;
  request.body = {&body, 1};
  request.repeats_conflicts = false;
  for (int tries = 1;; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(S3Answer answer, client_->send(request));
    if (!turn_into_error(answer)) return id_.clear(), Completion{};
    const std::string& code = answer.error.code;
    if (code == "ConditionalRequestConflict") return Completion{PutResult::kIsUnsure, true};
    if (answer.status() == 412 || code == "PreconditionFailed" || code == "NoSuchUpload")
      return Completion{PutResult::kIsUnsure};
    const bool may_repeat = answer.is_success() && (code == "InternalError" || code == "SlowDown" ||
                                                    code == "ServiceUnavailable");
    if (!may_repeat || tries == kMaxCompletions) return client_->error_of(request, answer);
  }
}

Result<PutResult> upload_in_parts(S3Client& client, const UploadRequest& upload) {
  UploadRequest own = upload;
  own.part_bytes = part_bytes_of(total_bytes(upload.bytes), upload.part_bytes);
  for (int tries = 1;; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(const PartsUpload::Completion done, upload_once(client, own));
    if (done.result == PutResult::kIsPut || !done.is_conflict) return done.result;
    if (tries == kMaxCompletions)
      return Status(Code::kRemoteError,
                    fmt::format("{}: other writers put this object at the same time ({} tries): "
                                "repeat the call",
                                client.location(upload.key), tries));
  }
}

Result<std::uint64_t> abort_uploads(S3Client& client, const std::string& prefix,
                                    std::int64_t before_s) {
  std::uint64_t removed = 0;
  S3Request request;
  request.query = {{"uploads", ""}, {"encoding-type", "url"}, {"prefix", prefix}};
  request.max_bytes = kMaxUploadsBytes;
  const std::string location = client.location(prefix) + ": ";
  for (int pages = 1;; ++pages) {
    SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
    if (!answer.is_success()) return client.error_of(request, answer);
    const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
    const Result<S3Uploads> page = parse_s3_uploads({text, answer.http.body.size()});
    if (!page.ok()) return page.status().with_prefix(location);
    for (const S3Uploads::Upload& each : page->uploads) {
      if (each.begun_s >= before_s || !each.key.starts_with(prefix)) continue;
      SPARCL_RETURN_IF_ERROR(abort_upload(client, each.key, each.id));
      ++removed;
    }
    if (page->next_key.empty()) return removed;
    if (pages == kMaxUploadPages)
      return corrupt(fmt::format("{}the list of unfinished uploads has no end", location));
    request.query = {{"uploads", ""},
                     {"encoding-type", "url"},
                     {"key-marker", page->next_key},
                     {"prefix", prefix},
                     {"upload-id-marker", page->next_id}};
  }
}

}  // namespace sparcl::store
