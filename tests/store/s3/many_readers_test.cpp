// Many readers of one store: each asks for at most three objects a version, and the publisher works
// as if it were alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/store/chain_support.hpp"
#include "tests/store/forwarding_store.hpp"
#include "tests/store/s3/stub_control.hpp"
#include "tests/support/tier.hpp"

namespace sparcl::store {
namespace {

const model::Schema kSmall{{"w", DataType::kFloat32, {1000}}};
constexpr std::size_t kThreads = 4;

// Counts what readers ask of a store.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::atomic<std::uint64_t> requests = 0;

  Result<std::optional<ObjectInfo>> look(const std::string& key) override {
    ++requests;
    return store_.look(key);
  }
  Result<std::optional<std::vector<std::byte>>> read_all(const std::string& key,
                                                         std::size_t max_bytes) override {
    ++requests;
    return store_.read_all(key, max_bytes);
  }
  Result<bool> read(const std::string& key, std::uint64_t first,
                    std::span<std::byte> into) override {
    ++requests;
    return store_.read(key, first, into);
  }
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override {
    ++requests;
    return store_.read_whole(key, bytes, first, sink);
  }
  Status list(const std::string& prefix,
              const std::function<bool(const ObjectInfo&)>& visit) override {
    requests += 1000;  // readers that follow never list
    return store_.list(prefix, visit);
  }
};

class Reader {
 public:
  explicit Reader(ObjectStore& store) : chain_(store) {}

  Status follow() {
    SPARCL_ASSIGN_OR_RETURN(const std::optional<VersionRecord> newest, chain_.newest());
    if (!newest || (held_ && held_->version == newest->version)) return {};
    SPARCL_ASSIGN_OR_RETURN(const auto steps, steps_to(chain_, *newest, {.held = held_}));
    SPARCL_RETURN_IF_ERROR(restore(chain_, *newest, steps, held_, state_of(tensors_)));
    held_ = newest->target();
    return {};
  }
  bool has(HeldTensors& trained) { return content(tensors_) == content(trained); }

 private:
  Chain chain_;
  HeldTensors tensors_{kSmall};
  std::optional<model::HeldVersion> held_;
};

// In few threads.
void all_follow(std::vector<std::unique_ptr<Reader>>& readers) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&readers, i] {
      for (std::size_t each = i; each < readers.size(); each += kThreads) {
        const Status status = readers[each]->follow();
        EXPECT_TRUE(status.ok()) << status.message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class ManyReaders : public testing::TestWithParam<test::StoreBody> {
 protected:
  ManyReaders() : url(test::store_url(GetParam(), folder / "store")), store(open()), read(open()) {
    for (std::size_t i = 0; i < count; ++i) readers.push_back(std::make_unique<Reader>(counting));
  }
  std::unique_ptr<ObjectStore> open() const {
    return std::move(*open_store(url, Missing::kIsMade));
  }
  bool is_over_server() const { return GetParam() != test::StoreBody::kDirectory; }
  void begin_counting() {
    counting.requests = 0;
    if (is_over_server()) (void)test::control_stub("PUT", "[]");
  }
  std::uint64_t counted() const {
    if (!is_over_server()) return counting.requests;
    return nlohmann::json::parse(test::control_stub("GET", "")).size();
  }
  // Seconds of a publish, and of what is put after it.
  double publish(ChainWriter& by, std::uint64_t version) {
    trained.change(version, 300);
    const auto before = std::chrono::steady_clock::now();
    const Status status = by.publish(version);
    by.finish();
    EXPECT_TRUE(status.ok()) << status.message();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  }

  const std::size_t count = test::by_tier<std::size_t>(40, 1000);
  test::TempFolder folder;
  std::string url;
  std::unique_ptr<ObjectStore> store, read;
  CountingStore counting{*read};
  std::vector<std::unique_ptr<Reader>> readers;
  HeldTensors trained{kSmall};
};

TEST_P(ManyReaders, AskForThreeObjectsAVersionEach) {
  auto by = std::move(*ChainWriter::open(*store, state_of(trained), {}));
  (void)publish(*by, 1);
  all_follow(readers);  // from nothing
  for (std::uint64_t version = 2; version <= 4; ++version) {
    (void)publish(*by, version);
    begin_counting();
    all_follow(readers);
    EXPECT_LE(counted(), 3 * count) << version;
    EXPECT_TRUE(std::ranges::all_of(readers, [&](const auto& each) { return each->has(trained); }));
  }
  // Beside the publisher: what each gets is whole, whenever it looks.
  double alone = 0, beside = 0;
  for (std::uint64_t version = 5; version < 9; ++version) alone += publish(*by, version);
  std::atomic<bool> is_over = false;
  std::thread following([&] {
    while (!is_over) all_follow(readers);
  });
  for (std::uint64_t version = 9; version < 13; ++version) beside += publish(*by, version);
  is_over = true;
  following.join();
  all_follow(readers);
  EXPECT_TRUE(std::ranges::all_of(readers, [&](const auto& each) { return each->has(trained); }));
  if (test::long_tier())
    std::printf("%zu readers: a publish takes %.1f ms alone, %.1f ms beside them\n", count,
                alone / 4 * 1000, beside / 4 * 1000);
}

INSTANTIATE_TEST_SUITE_P(Bodies, ManyReaders,
                         testing::Values(test::StoreBody::kDirectory, test::StoreBody::kS3),
                         [](const auto& body) { return test::name_of(body.param); });

}  // namespace
}  // namespace sparcl::store
