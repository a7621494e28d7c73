#pragma once
// A chain of versions in a store, and a store whose calls fail.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "src/store/address/open_store.hpp"
#include "src/store/chain_reader.hpp"
#include "src/store/chain_writer.hpp"
#include "src/store/directory_store.hpp"
#include "tests/replication/sharded_model.hpp"
#include "tests/support/s3_stub.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::store {

using replication::HeldTensors;
using test::TempFolder;

inline const model::Schema kTensors{{"embedding", DataType::kBfloat16, {300, 1000}},
                                    {"bias", DataType::kFloat32, {777}},
                                    {"none", DataType::kFloat32, {0}},
                                    {"ids", DataType::kInt64, {100}}};

inline ChainState state_of(const HeldTensors& tensors) {
  const replication::ReplicatedState view = tensors.view();
  ChainState state;
  state.map = view.map;
  state.schema = view.schema;
  state.schema_hash = view.schema_hash;
  state.arrays = view.arrays;
  state.kernels = view.kernels;
  return state;
}

inline std::vector<std::byte> content(HeldTensors& tensors) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < tensors.schema().size(); ++i) {
    const auto bytes = tensors.tensor(i);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

// A store that fails from some call on, as disks and networks do.
class FailingStore final : public ObjectStore {
 public:
  explicit FailingStore(ObjectStore& store) : store_(store) {}
  std::atomic<int> calls_left = -1;  // -1: it does not fail

  Result<StoreCapabilities> capabilities() override { return store_.capabilities(); }
  std::string location_of(std::string_view key) const override { return store_.location_of(key); }
  Result<std::optional<ObjectInfo>> look(const std::string& key) override {
    if (fails()) return failed(key);
    return store_.look(key);
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    if (fails()) return failed(key);
    return store_.read_all(key, max_bytes);
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    if (fails()) return failed(key);
    return store_.read(key, first, into);
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override {
    if (fails()) return failed(key);
    return store_.read_whole(key, bytes, first, sink);
  }
  // Some of them have happened: their answer is lost.
  Result<bool> put_if_absent(const std::string& key, Pieces bytes) override {
    if (!fails()) return store_.put_if_absent(key, bytes);
    if (loses_answers) (void)store_.put_if_absent(key, bytes);
    return failed(key);
  }
  Status replace(const std::string& key, Pieces bytes) override {
    if (fails()) return failed(key);
    return store_.replace(key, bytes);
  }
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override {
    if (fails()) return failed(prefix);
    return store_.list(prefix, visit);
  }
  Status remove(const std::string& key) override {
    if (fails()) return failed(key);
    return store_.remove(key);
  }
  Result<std::uint64_t> remove_unfinished(std::int64_t before_s) override {
    return store_.remove_unfinished(before_s);
  }

  bool loses_answers = false;

 private:
  bool fails() {
    int left = calls_left;
    while (left > 0 && !calls_left.compare_exchange_weak(left, left - 1)) {
    }
    return left == 0;
  }
  Status failed(const std::string& key) const {
    return Status(Code::kSystemError, store_.location_of(key) + ": the disk fails");
  }

  ObjectStore& store_;
};

class ChainOfVersions : public testing::Test {
 protected:
  explicit ChainOfVersions(test::StoreBody body = test::StoreBody::kDirectory)
      : url(test::store_url(body, folder / "store")), store(open()), chain(*store) {
    options.single_writer = body == test::StoreBody::kS3WithoutConditions;
    trained.change(1, 2);
  }
  std::unique_ptr<ObjectStore> open() const {
    return std::move(*open_store(url, Missing::kIsMade));
  }
  std::unique_ptr<ChainWriter> writer(ObjectStore& into) {
    Result<std::unique_ptr<ChainWriter>> made = ChainWriter::open(into, state_of(trained), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(*made) : nullptr;
  }
  void publish(ChainWriter& by, std::uint64_t version) {
    const Status status = by.publish(version);
    ASSERT_TRUE(status.ok()) << status.message();
    contents.push_back(content(trained));
    versions.push_back({version, by.newest()->target_hash});
  }
  std::vector<std::string> keys(const std::string& prefix = "") {
    std::vector<std::string> found;
    EXPECT_TRUE(store
                    ->list(prefix,
                           [&](const ObjectInfo& each) {
                             found.push_back(each.key);
                             return true;
                           })
                    .ok());
    return found;
  }
  // Brings tensors to a version, as readers do.
  Status bring(HeldTensors& tensors, const VersionRecord& target,
               const std::optional<model::HeldVersion>& held = std::nullopt) {
    SPARCL_ASSIGN_OR_RETURN(const auto steps, steps_to(chain, target, {.held = held}));
    ChainState state = state_of(tensors);
    state.spare_bytes = spare_bytes;
    return restore(chain, target, steps, held, state);
  }
  // Versions 1, 3, 5, ... of which one in four changes nothing.
  void publish_all(int count) {
    const auto by = writer(*store);
    for (int i = 0; i < count; ++i) {
      if (i % 4 != 3) trained.change(static_cast<std::uint64_t>(i) + 10, i % 5 == 0 ? 20 : 3000);
      publish(*by, 2 * static_cast<std::uint64_t>(i) + 1);
    }
  }
  void set_to(HeldTensors& tensors, std::size_t i) const {
    std::size_t at = 0;
    for (std::size_t tensor = 0; tensor < tensors.schema().size(); ++tensor) {
      const auto bytes = tensors.tensor(tensor);
      std::copy_n(contents[i].begin() + static_cast<std::ptrdiff_t>(at), bytes.size(),
                  bytes.begin());
      at += bytes.size();
    }
  }

  TempFolder folder;
  std::string url;
  std::unique_ptr<ObjectStore> store;
  Chain chain;
  WriterOptions options{4};
  HeldTensors trained{kTensors};
  std::optional<std::uint64_t> spare_bytes;  // of readers
  std::vector<std::vector<std::byte>> contents;
  std::vector<model::HeldVersion> versions;
};

// The same in each kind of store.
class ChainInAStore : public ChainOfVersions, public testing::WithParamInterface<test::StoreBody> {
 protected:
  ChainInAStore() : ChainOfVersions(GetParam()) {}
};

}  // namespace sparcl::store
