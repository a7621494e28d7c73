#pragma once
// A store that hands each call on to another one, for stand-ins that change some of them.

#include <string>
#include <vector>

#include "src/store/object_store.hpp"

namespace sparcl::store {

class ForwardingStore : public ObjectStore {
 public:
  explicit ForwardingStore(ObjectStore& store) : store_(store) {}

  Result<StoreCapabilities> capabilities() override { return store_.capabilities(); }
  std::string location_of(std::string_view key) const override { return store_.location_of(key); }
  Result<std::optional<ObjectInfo>> look(const std::string& key) override {
    return store_.look(key);
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    return store_.read_all(key, max_bytes);
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    return store_.read(key, first, into);
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override {
    return store_.read_whole(key, bytes, first, sink);
  }
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override {
    return store_.put_if_absent(key, bytes);
  }
  Status replace(const std::string& key, Pieces bytes) override {
    return store_.replace(key, bytes);
  }
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override {
    return store_.list(prefix, visit);
  }
  Status remove(const std::string& key) override { return store_.remove(key); }
  Result<std::uint64_t> remove_unfinished(std::int64_t before_s) override {
    return store_.remove_unfinished(before_s);
  }

 protected:
  ObjectStore& store_;
};

}  // namespace sparcl::store
