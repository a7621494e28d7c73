#pragma once
// Objects in a bucket of S3, or of a server with its protocol. put_if_absent() relies on the header
// If-None-Match. Some servers ignore it: capabilities() finds out by putting one small object,
// PREFIX/.sparcl-probe, twice. On such a server put_if_absent() looks before it puts, which does
// not exclude another writer in between.
//
// A killed writer may leave parts of an unfinished upload. They are no objects, and are paid for.

#include <memory>
#include <string>

#include "src/store/object_store.hpp"
#include "src/store/s3/s3_client.hpp"
#include "src/store/s3/s3_ranges.hpp"
#include "src/store/s3/s3_upload.hpp"

namespace sparcl::store {

struct S3StoreOptions {
  S3ClientOptions client;
  std::uint64_t part_bytes = kPartBytes;   // larger objects are put in parts
  S3RangePlan ranges;                      // of objects that are read whole
  std::uint64_t max_list_pages = 100'000;  // of one list: a server gives up to 1,000 keys a page
};

class S3Store final : public ObjectStore {
 public:
  // url: "s3://BUCKET/PREFIX". No request is made. InvalidArgument: see read_s3_settings().
  // Unsupported: there is no libcurl.
  static Result<std::unique_ptr<ObjectStore>> open(const std::string& url);
  static Result<std::unique_ptr<ObjectStore>> open(const std::string& url,
                                                   const S3StoreOptions& options);

  Result<StoreCapabilities> capabilities() override;
  void set_deadline(std::optional<Deadline> deadline) override { client_->set_deadline(deadline); }
  std::string location_of(std::string_view key) const override;
  Result<std::optional<ObjectInfo>> look(const std::string& key) override;
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override;
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override;
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override;
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override;
  Result<std::unique_ptr<ObjectWriter>> begin(const std::string& key,
                                              std::uint64_t max_bytes) override;
  Status replace(const std::string& key, Pieces bytes) override;
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override;
  Status remove(const std::string& key) override;
  // Uploads that began a day before that. A server that refuses to list them is no error, but is
  // logged.
  Result<std::uint64_t> remove_unfinished(std::int64_t before_s) override;

 private:
  S3Store(std::unique_ptr<S3Client> client, const S3StoreOptions& options)
      : client_(std::move(client)), options_(options) {}
  class Writer;
  std::string full_key(std::string_view key) const;
  Result<bool> probe();
  Result<std::string> put_probe();
  Result<PutResult> put(const std::string& key, Pieces bytes, const std::string& nonce,
                        const NamedTexts& condition);
  // The answer is no list.
  Status no_list(const Status& why) const;
  Result<bool> has_nonce(const std::string& key, const std::string& nonce);

  std::unique_ptr<S3Client> client_;
  const S3StoreOptions options_;
};

}  // namespace sparcl::store
