#include "src/store/s3/s3_upload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/base/log.hpp"
#include "src/base/shown_text.hpp"

namespace sparcl::store {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr int kMaxCompletions = 5;  // of one upload, and of uploads after a conflict

std::uint64_t total_bytes(Pieces pieces) {
  std::uint64_t total = 0;
  for (const std::span<const std::byte> piece : pieces) total += piece.size();
  return total;
}

Result<std::string> create(S3Client& client, const UploadRequest& upload) {
  S3Request request;
  request.method = "POST";
  request.key = upload.key;
  request.query = {{"uploads", ""}};
  request.headers = upload.headers;
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
  if (!answer.is_success()) return client.error_of(request, answer);
  const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
  Result<std::string> id = parse_upload_id({text, answer.http.body.size()});
  if (!id.ok()) return id.status().with_prefix(client.location(upload.key) + ": ");
  return id;
}

// The tag that S3 gives to the part.
Result<std::string> put_part(S3Client& client, const UploadRequest& upload, const std::string& id,
                             std::uint64_t number, Pieces bytes) {
  S3Request request;
  request.method = "PUT";
  request.key = upload.key;
  request.query = {{"partNumber", std::to_string(number)}, {"uploadId", id}};
  request.body = bytes;
  SPARCL_ASSIGN_OR_RETURN(const S3Answer answer, client.send(request));
  if (!answer.is_success()) return client.error_of(request, answer);
  std::string tag(answer.http.header("etag"));
  const auto is_odd = [](char c) { return c < 0x20 || c == '<' || c == '&'; };
  if (tag.empty() || std::ranges::any_of(tag, is_odd))
    return Status(Code::kCorrupt, fmt::format("{}: the server gives part {} no tag (ETag)",
                                              client.location(upload.key), number));
  return tag;
}

Result<std::string> put_parts(S3Client& client, const UploadRequest& upload,
                              const std::string& id) {
  std::string list = "<CompleteMultipartUpload>";
  const std::uint64_t total = total_bytes(upload.bytes);
  for (std::uint64_t first = 0, number = 1; first < total; first += upload.part_bytes, ++number) {
    const auto part = slice_of(upload.bytes, first, std::min(upload.part_bytes, total - first));
    SPARCL_ASSIGN_OR_RETURN(const std::string tag, put_part(client, upload, id, number, part));
    list += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", number, tag);
  }
  return list + "</CompleteMultipartUpload>";
}

// An answer with status 200 may be an error, which S3 has met after it began to answer.
bool turn_into_error(S3Answer& answer) {
  if (!answer.is_success()) return true;
  const auto* const text = reinterpret_cast<const char*>(answer.http.body.data());
  answer.error = parse_s3_error({text, answer.http.body.size()});
  return !answer.error.code.empty();
}

struct Completion {
  PutResult result = PutResult::kIsPut;
  bool is_conflict = false;  // all parts are to be put once more
};

Result<Completion> complete(S3Client& client, const UploadRequest& upload, const std::string& id,
                            const std::string& list) {
  const std::span<const std::byte> body = std::as_bytes(std::span(list));
  S3Request request;
  request.method = "POST";
  request.key = upload.key;
  request.query = {{"uploadId", id}};
  request.headers = upload.condition;
  request.body = {&body, 1};
  request.repeats_conflicts = false;
  for (int tries = 1;; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(S3Answer answer, client.send(request));
    if (!turn_into_error(answer)) return Completion{};
    const std::string& code = answer.error.code;
    if (code == "ConditionalRequestConflict") return Completion{PutResult::kIsUnsure, true};
    if (answer.status() == 412 || code == "PreconditionFailed" || code == "NoSuchUpload")
      return Completion{PutResult::kIsUnsure};
    const bool may_repeat = answer.is_success() && (code == "InternalError" || code == "SlowDown" ||
                                                    code == "ServiceUnavailable");
    if (!may_repeat || tries == kMaxCompletions) return client.error_of(request, answer);
  }
}

// The parts would be paid for.
void abort_upload(S3Client& client, const UploadRequest& upload, const std::string& id) {
  S3Request request;
  request.method = "DELETE";
  request.key = upload.key;
  request.query = {{"uploadId", id}};
  const Result<S3Answer> answer = client.send(request);
  if (answer.ok() && (answer->is_success() || answer->status() == 404)) return;
  log_warn(
      "{}: parts of an unfinished upload are left: {}: a lifecycle rule of the bucket "
      "(AbortIncompleteMultipartUpload) removes them",
      client.location(upload.key),
      answer.ok() ? fmt::format("HTTP {}", answer->status())
                  : shown_line(answer.status().message()));
}

Result<Completion> upload_once(S3Client& client, const UploadRequest& upload,
                               const std::string& id) {
  SPARCL_ASSIGN_OR_RETURN(const std::string list, put_parts(client, upload, id));
  return complete(client, upload, id, list);
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

Result<PutResult> upload_in_parts(S3Client& client, const UploadRequest& upload) {
  UploadRequest own = upload;
  own.part_bytes = part_bytes_of(total_bytes(upload.bytes), upload.part_bytes);
  for (int tries = 1;; ++tries) {
    SPARCL_ASSIGN_OR_RETURN(const std::string id, create(client, own));
    const Result<Completion> done = upload_once(client, own, id);
    if (done.ok() && done->result == PutResult::kIsPut) return PutResult::kIsPut;
    abort_upload(client, own, id);
    SPARCL_RETURN_IF_ERROR(done.status());
    if (!done->is_conflict) return done->result;
    if (tries == kMaxCompletions)
      return Status(Code::kRemoteError,
                    fmt::format("{}: other writers put this object at the same time ({} tries): "
                                "repeat the call",
                                client.location(upload.key), tries));
  }
}

}  // namespace sparcl::store
