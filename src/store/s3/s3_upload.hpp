#pragma once
// Objects in parts: S3's multipart uploads.

#include <cstdint>

#include "src/store/s3/s3_client.hpp"

namespace sparcl::store {

constexpr std::uint64_t kPartBytes = std::uint64_t{64} << 20;  // of a part, and of one request
constexpr std::uint64_t kMaxParts = 10'000;

// At least `smallest`, and larger where more than kMaxParts parts would be needed.
std::uint64_t part_bytes_of(std::uint64_t object_bytes, std::uint64_t smallest);
// The bytes [first, first + count) of the pieces.
std::vector<std::span<const std::byte>> slice_of(Pieces pieces, std::uint64_t first,
                                                 std::uint64_t count);

// kIsUnsure: an object is there, which may be this one. A request whose answer was lost has been
// sent again, by libcurl or by S3Client.
enum class PutResult : std::uint8_t { kIsPut, kIsUnsure };

struct UploadRequest {
  std::string key;  // with the prefix
  Pieces bytes;
  NamedTexts headers;    // of the object
  NamedTexts condition;  // of the last request
  std::uint64_t part_bytes = kPartBytes;
};

// After an error the parts are removed, unless that fails, too: the error says so.
Result<PutResult> upload_in_parts(S3Client& client, const UploadRequest& upload);

// One upload, whose parts come one after the other. Without finish() they are removed again.
class PartsUpload {
 public:
  // key: with the prefix. headers: of the object. The client outlives it.
  static Result<PartsUpload> begin(S3Client& client, const std::string& key,
                                   const NamedTexts& headers);
  PartsUpload(PartsUpload&& other) noexcept;
  PartsUpload& operator=(PartsUpload&&) = delete;
  ~PartsUpload();

  // All parts but the last have the same size.
  Status add(Pieces part);
  struct Completion {
    PutResult result = PutResult::kIsPut;
    bool is_conflict = false;  // all parts are to be put once more, in another upload
  };
  Result<Completion> finish(const NamedTexts& condition);

 private:
  PartsUpload(S3Client& client, std::string key, std::string id)
      : client_(&client), key_(std::move(key)), id_(std::move(id)) {}

  S3Client* client_;
  std::string key_, id_;  // id_ "": nothing is to be removed
  std::string list_;      // of the parts
  std::uint64_t count_ = 0;
};

// Removes uploads below a prefix that were begun before this time and not finished. Returns how
// many.
Result<std::uint64_t> abort_uploads(S3Client& client, const std::string& prefix,
                                    std::int64_t before_s);

}  // namespace sparcl::store
