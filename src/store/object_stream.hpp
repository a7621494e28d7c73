#pragma once
// Puts coded bytes into a store while they are made.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/codec/update.hpp"
#include "src/store/object_store.hpp"
#include "src/store/version_record.hpp"

namespace sparcl::store {

class ObjectStream final : public codec::ByteSink {
 public:
  // The key is one that no other writer uses, the object at most max_bytes. The store outlives it.
  static Result<ObjectStream> begin(ObjectStore& store, const std::string& key,
                                    std::uint64_t max_bytes);

  std::byte* reserve(std::size_t bytes) override;
  // After an error, which status() returns, bytes are dropped.
  void commit(std::size_t used) override;
  const Status& status() const { return error_; }
  double seconds() const { return seconds_; }  // that the store took

  // Once, after the last byte. Without it the store has no object.
  Result<StoredObject> finish();
  // After finish(): the digests of its leaves.
  std::vector<model::Digest256> take_leaves() { return std::move(leaves_); }

 private:
  ObjectStream(ObjectStore& store, std::string key, std::unique_ptr<ObjectWriter> writer)
      : store_(&store), key_(std::move(key)), writer_(std::move(writer)) {}
  Status put_leaf(std::span<const std::byte> leaf);

  ObjectStore* store_;
  std::string key_;
  std::unique_ptr<ObjectWriter> writer_;
  std::vector<std::byte> room_;  // less than a leaf, and what comes after it
  std::size_t filled_ = 0;
  std::uint64_t byte_count_ = 0;
  std::vector<model::Digest256> leaves_;
  double seconds_ = 0;
  Status error_;
};

}  // namespace sparcl::store
