// Objects that readers of a host have fetched: each is fetched once, also by a reader that is
// killed, and what is damaged here is fetched again.

#include "src/store/object_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "src/store/directory_store.hpp"
#include "src/store/stored_object.hpp"
#include "src/trust/hex.hpp"
#include "tests/store/forwarding_store.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::store {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Counts the bytes that are fetched, and ends the process after some.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Result<bool> read_whole(const std::string& key, std::uint64_t bytes, std::uint64_t first,
                          const PieceSink& sink) override {
    std::uint64_t taken = 0;
    const PieceSink counting{sink.memory, [&](std::span<const std::byte> piece) {
                               fetched += piece.size();
                               const Status status = sink.take(piece);
                               if (++taken == dies_after) ::_exit(9);
                               return status;
                             }};
    return ForwardingStore::read_whole(key, bytes, first, counting);
  }
  std::atomic<std::uint64_t> fetched = 0;
  std::uint64_t dies_after = 0;  // pieces; 0: it does not
};

class CachedReader : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 5 * model::kLeafBytes + 777;

  CachedReader() : folder_(fs::path(directory_ / "cache")) {
    use(std::uint64_t{1} << 30);
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<std::byte>(i * 7 + i / 1000);
    object_ = put("deltas/one");
  }
  void use(std::uint64_t max_bytes) { store_.set_cache(*ObjectCache::open(folder_, max_bytes)); }
  StoredObject put(const std::string& key) {
    Staging staged;
    staged.write(0, bytes_);
    return *put_object(store_, key, staged, bytes_.size());
  }
  Status read(const StoredObject& object) {
    std::vector<std::byte> got(object.bytes);
    const Status status =
        read_checked(store_, object,
                     {[&](std::uint64_t first, std::size_t count) {
                        return std::span(got).subspan(static_cast<std::size_t>(first), count);
                      },
                      [](std::span<const std::byte>) { return Status(); }});
    EXPECT_TRUE(!status.ok() || got == bytes_);
    return status;
  }
  std::uint64_t fetched() { return store_.fetched.exchange(0); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& each : fs::directory_iterator(folder_))
      if (each.path().extension() != ".leaves") all.push_back(each.path());
    return all;
  }

  test::TempFolder directory_;
  std::string folder_;
  std::unique_ptr<ObjectStore> inner_ = std::move(*DirectoryStore::open(directory_ / "store"));
  CountingStore store_{*inner_};
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kBytes);
  StoredObject object_;
};

TEST_F(CachedReader, FetchesAnObjectOnce) {
  EXPECT_TRUE(read(object_).ok());
  EXPECT_EQ(fetched(), kBytes);
  EXPECT_TRUE(read(object_).ok());
  EXPECT_EQ(fetched(), 0U);
  ASSERT_TRUE(store_.remove(object_.key).ok());
  EXPECT_TRUE(read(object_).ok()) << "it is here";
  EXPECT_EQ(check_object(store_, object_).code(), Code::kCorrupt) << "that looks at the store";
}

TEST_F(CachedReader, GoesOnAfterOneThatWasKilled) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    store_.dies_after = 3;
    (void)read(object_);
    ::_exit(0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  ASSERT_EQ(WEXITSTATUS(how), 9);
  EXPECT_TRUE(read(object_).ok());
  EXPECT_EQ(fetched(), kBytes - 3 * model::kLeafBytes);
  EXPECT_TRUE(read(object_).ok());
  EXPECT_EQ(fetched(), 0U);
}

TEST_F(CachedReader, WhatIsDamagedHereIsFetchedAgain) {
  const fs::path file = folder_ + "/" + trust::hex_of(object_.digest);
  const auto overwrite = [](const fs::path& path, std::uint64_t at) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(at));
    stream.write("!?", 2);
    ASSERT_TRUE(stream.good());
  };
  const std::vector<std::function<void()>> damages{
      [&] { overwrite(file, 0); },
      [&] { overwrite(file, 2 * model::kLeafBytes + 5); },
      [&] { overwrite(file, kBytes - 3); },
      [&] { overwrite(file.string() + ".leaves", 40); },
      [&] { fs::resize_file(file, 1000); },
      [&] { fs::resize_file(file, 0); },
      [&] { fs::remove(file.string() + ".leaves"); },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    ASSERT_TRUE(read(object_).ok());
    (void)fetched();
    damages[i]();
    EXPECT_TRUE(read(object_).ok()) << i;
    EXPECT_GT(fetched(), 0U) << i;
  }
}

TEST_F(CachedReader, AnObjectThatIsCorruptInTheStoreIsNotKept) {
  bytes_[5] ^= std::byte{1};
  Staging staged;
  staged.write(0, bytes_);
  ASSERT_TRUE(replace_object(store_, object_, staged).ok());
  const Status status = read(object_);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(store_.location_of(object_.key)));
  EXPECT_TRUE(files().empty());
  bytes_[5] ^= std::byte{1};
  Staging mended;
  mended.write(0, bytes_);
  ASSERT_TRUE(replace_object(store_, object_, mended).ok());
  EXPECT_TRUE(read(object_).ok());
}

TEST_F(CachedReader, SeveralFetchItOnce) {
  std::vector<std::thread> readers;
  for (int i = 0; i < 6; ++i) readers.emplace_back([&] { EXPECT_TRUE(read(object_).ok()); });
  for (std::thread& each : readers) each.join();
  EXPECT_EQ(fetched(), kBytes);
}

TEST_F(CachedReader, TheOldestAreRemoved) {
  use(2 * kBytes + 100);
  ASSERT_TRUE(read(object_).ok());
  std::vector<StoredObject> more;
  for (int i = 0; i < 3; ++i) {
    bytes_[0] = static_cast<std::byte>(100 + i);
    more.push_back(put("deltas/" + std::to_string(i)));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // of the file system's clock
    ASSERT_TRUE(read(more.back()).ok());
  }
  EXPECT_EQ(files().size(), 2U);
  (void)fetched();
  EXPECT_TRUE(read(more.back()).ok());
  EXPECT_EQ(fetched(), 0U);
  use(kBytes - 1);
  EXPECT_TRUE(read(put("deltas/large")).ok()) << "larger than the cache";
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(CachedReader, ALinkThatOthersMadeIsNotFollowed) {
  const fs::path victim = directory_ / "victim";
  std::ofstream(victim) << "not ours";
  fs::create_symlink(victim, folder_ + "/" + trust::hex_of(object_.digest));
  EXPECT_TRUE(read(object_).ok()) << "from the store";
  EXPECT_EQ(fs::file_size(victim), 8U);
}

TEST_F(CachedReader, AFolderThatCannotBeIsNamed) {
  std::ofstream(directory_ / "file") << "no folder";
  const auto opened = ObjectCache::open(directory_ / "file/cache", 1);
  EXPECT_EQ(opened.status().code(), Code::kSystemError);
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr(directory_ / "file/cache"));
}

}  // namespace
}  // namespace sparcl::store
