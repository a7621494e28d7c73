// The contract ObjectStore, on every body.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#include "src/store/address/open_store.hpp"
#include "src/store/directory_store.hpp"
#include "src/store/new_object_file.hpp"
#include "tests/support/s3_stub.hpp"
#include "tests/support/temp_folder.hpp"

namespace sparcl::store {
namespace {

using test::StoreBody;
using test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class ObjectStoreContract : public testing::TestWithParam<StoreBody> {
 protected:
  ObjectStoreContract() : url(test::store_url(GetParam(), folder / "store")), store(open()) {}
  std::unique_ptr<ObjectStore> open() const {
    Result<std::unique_ptr<ObjectStore>> opened = open_store(url, Missing::kIsMade);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return std::move(*opened);
  }
  // In pieces, an empty one among them.
  Result<bool> put(const std::string& key, std::string_view text) const {
    const auto all = bytes_of(text);
    const std::array pieces{all.first(all.size() / 3), all.first(0), all.subspan(all.size() / 3)};
    return store->put_if_absent(key, pieces);
  }
  std::string read(const std::string& key) const {
    const Result<std::optional<ObjectInfo>> info = store->look(key);
    if (!info.ok() || !*info) return "none";
    std::string text((*info)->bytes, ' ');
    const Result<bool> got = store->read(key, 0, std::as_writable_bytes(std::span(text)));
    return got.ok() && *got ? text : "unreadable";
  }
  std::vector<std::string> keys(const std::string& prefix) const {
    std::vector<std::string> all;
    EXPECT_TRUE(store
                    ->list(prefix,
                           [&](const ObjectInfo& each) {
                             all.push_back(each.key);
                             return true;
                           })
                    .ok());
    return all;
  }

  TempFolder folder;
  std::string url;
  std::unique_ptr<ObjectStore> store;
};

TEST_P(ObjectStoreContract, AnObjectThatWasPutIsReadByOthers) {
  ASSERT_TRUE(*put("a/b.bin", "first bytes"));
  store = open();
  EXPECT_EQ(read("a/b.bin"), "first bytes");
  const ObjectInfo info = **store->look("a/b.bin");
  EXPECT_EQ(info.bytes, 11U);
  EXPECT_EQ(info.key, "a/b.bin");
  EXPECT_TRUE(std::ranges::equal(**store->read_all("a/b.bin", 11), bytes_of("first bytes")));
  EXPECT_EQ(store->read_all("a/b.bin", 10).status().code(), Code::kCorrupt);
  EXPECT_FALSE(store->read_all("a/none", 10)->has_value());
  EXPECT_NEAR(static_cast<double>(info.written_s), static_cast<double>(::time(nullptr)), 60);
  ASSERT_TRUE(*put("empty", ""));
  EXPECT_EQ(read("empty"), "");
}

TEST_P(ObjectStoreContract, TheFirstBytesOfAKeyStay) {
  ASSERT_TRUE(*put("k", "one"));
  EXPECT_FALSE(*put("k", "two"));
  EXPECT_EQ(read("k"), "one");
  const std::array pieces{bytes_of("three")};
  ASSERT_TRUE(store->replace("k", pieces).ok());
  EXPECT_EQ(read("k"), "three");
  ASSERT_TRUE(store->replace("new", pieces).ok());
  EXPECT_EQ(read("new"), "three");
}

TEST_P(ObjectStoreContract, RangesAreReadAndNothingBeyond) {
  ASSERT_TRUE(*put("k", "0123456789"));
  std::array<char, 4> part{};
  const auto into = std::as_writable_bytes(std::span(part));
  ASSERT_TRUE(*store->read("k", 3, into));
  EXPECT_EQ(std::string_view(part.data(), 4), "3456");
  ASSERT_TRUE(*store->read("k", 10, into.first(0)));
  const Result<bool> beyond = store->read("k", 8, into);
  EXPECT_EQ(beyond.status().code(), Code::kCorrupt);
  EXPECT_THAT(std::string(beyond.status().message()),
              AllOf(HasSubstr(store->location_of("k")), HasSubstr("10 bytes")));
  EXPECT_EQ(store->read("k", UINT64_MAX, into).status().code(), Code::kCorrupt);
}

TEST_P(ObjectStoreContract, AnObjectThatIsAbsentIsNoError) {
  std::byte byte{};
  EXPECT_FALSE(store->look("none/here")->has_value());
  EXPECT_FALSE(*store->read("none/here", 0, {&byte, 1}));
  EXPECT_TRUE(store->remove("none/here").ok());
  EXPECT_THAT(keys("none"), ElementsAre());
  ASSERT_TRUE(*put("file", "x"));
  EXPECT_FALSE(store->look("file/below")->has_value());
  ASSERT_TRUE(store->remove("file").ok());
  EXPECT_EQ(read("file"), "none");
  EXPECT_TRUE(*put("file", "again"));
}

TEST_P(ObjectStoreContract, ListsAscendAndStopWhenAsked) {
  for (const char* key : {"b/2", "a/10", "a/9", "a/sub/1", "ab", "c"}) ASSERT_TRUE(*put(key, key));
  EXPECT_THAT(keys(""), ElementsAre("a/10", "a/9", "a/sub/1", "ab", "b/2", "c"));
  EXPECT_THAT(keys("a"), ElementsAre("a/10", "a/9", "a/sub/1"));
  int seen = 0;
  EXPECT_TRUE(store->list("", [&](const ObjectInfo&) { return ++seen < 2; }).ok());
  EXPECT_EQ(seen, 2);
}

TEST_P(ObjectStoreContract, KeysThatLeadElsewhereAreRefused) {
  const std::string long_part(kMaxSegment + 1, 'a');
  for (const std::string& key :
       {std::string(), std::string("/a"), std::string("a/"), std::string("a//b"), std::string(".."),
        std::string("a/../b"), std::string(".hidden"), std::string("a b"), std::string("a\0b", 3),
        std::string("a\\b"), long_part, std::string(kMaxKey + 1, 'a')}) {
    std::byte byte{};
    EXPECT_EQ(put(key, "x").status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store->replace(key, {}).code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store->look(key).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store->read(key, 0, {&byte, 1}).status().code(), Code::kInvalidArgument) << key;
    EXPECT_EQ(store->remove(key).code(), Code::kInvalidArgument) << key;
  }
}

TEST_P(ObjectStoreContract, OneOfManyWritersOfAKeySucceeds) {
  if (!store->capabilities()->excludes_writers)
    GTEST_SKIP() << "this body does not exclude writers";
  constexpr int kKeys = 50, kWriters = 4;
  std::vector<pid_t> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.push_back(::fork());
    ASSERT_GE(writers.back(), 0);
    if (writers.back() != 0) continue;
    const std::unique_ptr<ObjectStore> own = open();
    const std::string text(10'000, static_cast<char>('a' + writer));
    const std::array pieces{bytes_of(text)};
    int won = 0;
    for (int key = 0; key < kKeys; ++key) {
      const Result<bool> put = own->put_if_absent("commits/" + std::to_string(key), pieces);
      if (!put.ok()) ::_exit(255);
      won += *put ? 1 : 0;
    }
    ::_exit(won);
  }
  int successes = 0;
  for (const pid_t writer : writers) {
    int status = 0;
    ASSERT_EQ(::waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 255);
    successes += WEXITSTATUS(status);
  }
  EXPECT_EQ(successes, kKeys);
  for (int key = 0; key < kKeys; ++key) {
    const std::string text = read("commits/" + std::to_string(key));
    EXPECT_EQ(text, std::string(10'000, text.front()));
  }
}

// A reader gets one of the texts, whatever their lengths.
TEST_P(ObjectStoreContract, AReplacedObjectIsReadWhole) {
  const std::string texts[] = {"9", std::string(5000, 'x'), std::string(70, 'y')};
  const auto write = [&](ObjectStore& by, int i) {
    const std::array pieces{bytes_of(texts[i % 3])};
    return by.replace("head", pieces).ok();
  };
  ASSERT_TRUE(write(*store, 0));
  std::thread writer([&] {
    const std::unique_ptr<ObjectStore> own = open();
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(write(*own, i));
  });
  for (int i = 0; i < 300; ++i) {
    const auto read = store->read_all("head", 10'000);
    EXPECT_TRUE(read.ok() && read->has_value()) << read.status().message();
    if (!read.ok() || !read->has_value()) break;
    const std::string_view got(reinterpret_cast<const char*>((*read)->data()), (*read)->size());
    EXPECT_TRUE(std::ranges::find(texts, got) != std::end(texts)) << got.size();
  }
  writer.join();
}

// Wherever a writer is killed, an object is there whole or not at all, and the next one writes it.
TEST_P(ObjectStoreContract, AWriterThatIsKilledLeavesNoPartOfAnObject) {
  const std::string text(1 << 20, 'w');
  int whole = 0;
  for (int round = 0; round < 20; ++round) {
    const std::string key = "big/" + std::to_string(round);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const std::array pieces{bytes_of(text), bytes_of(text)};
      const std::unique_ptr<ObjectStore> own = open();
      (void)own->put_if_absent(key, pieces);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>((GetParam() == StoreBody::kDirectory ? 100 : 700) * round));
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const Result<std::optional<ObjectInfo>> info = store->look(key);
    ASSERT_TRUE(info.ok());
    if (info->has_value()) {
      ++whole;
      EXPECT_EQ((*info)->bytes, 2 * text.size());
    } else if (const bool is_first = *put(key, "after");
               GetParam() != StoreBody::kS3WithoutConditions) {
      // A server may have received all of it, and taken its time.
      EXPECT_EQ(read(key), is_first ? "after" : text + text);
    }
  }
  EXPECT_EQ(keys("big").size(), 20U) << whole << " whole";
}

TEST_P(ObjectStoreContract, AnObjectIsPutWhileItIsMade) {
  std::string text(3 * kPieceBytes + 5, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 1000);
  const auto write = [&](ObjectWriter& writer, std::size_t piece) {
    for (std::size_t at = 0; at < text.size(); at += piece)
      ASSERT_TRUE(writer.write(bytes_of(text).subspan(at, std::min(piece, text.size() - at))).ok());
  };
  {
    const auto writer = std::move(*store->begin("a/b/k", text.size()));
    write(*writer, 700'000);
    EXPECT_EQ(read("a/b/k"), "none") << "it is not finished";
    EXPECT_TRUE(*writer->finish());
    EXPECT_TRUE(read("a/b/k") == text);
  }
  {
    const auto writer = std::move(*store->begin("a/b/k", text.size()));
    ASSERT_TRUE(writer->write(bytes_of("other")).ok());
    EXPECT_FALSE(*writer->finish()) << "the first bytes of a key stay";
    EXPECT_TRUE(read("a/b/k") == text);
  }
  {
    const auto writer = std::move(*store->begin("left", text.size()));
    write(*writer, text.size());
  }
  EXPECT_EQ(read("left"), "none");
  const auto empty = std::move(*store->begin("empty", 0));
  EXPECT_TRUE(*empty->finish());
  EXPECT_EQ(read("empty"), "");
  EXPECT_FALSE(store->begin("../k", 1).ok());
  EXPECT_THAT(keys(""), ElementsAre("a/b/k", "empty"));
}

TEST_P(ObjectStoreContract, AWholeObjectComesInPieces) {
  std::string text(2 * kPieceBytes + 5, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 1000);
  ASSERT_TRUE(*put("k", text));
  std::string got, piece;
  std::vector<std::uint64_t> firsts;
  const PieceSink sink{[&](std::uint64_t first, std::size_t count) {
                         firsts.push_back(first);
                         piece.resize(count);
                         return std::as_writable_bytes(std::span(piece));
                       },
                       [&](std::span<const std::byte> full) {
                         got.append(reinterpret_cast<const char*>(full.data()), full.size());
                         return Status();
                       }};
  ASSERT_TRUE(*store->read_whole("k", text.size(), 0, sink));
  EXPECT_TRUE(got == text);
  EXPECT_THAT(firsts, ElementsAre(0U, kPieceBytes, 2 * kPieceBytes));
  EXPECT_FALSE(*store->read_whole("none", 5, 0, sink));
  for (const std::uint64_t wrong : {text.size() - 1, text.size() + 1, std::size_t{0}})
    EXPECT_EQ(store->read_whole("k", wrong, 0, sink).status().code(), Code::kCorrupt) << wrong;
  EXPECT_EQ(firsts.size(), 3U) << "no memory is asked for";
}

INSTANTIATE_TEST_SUITE_P(Bodies, ObjectStoreContract, testing::ValuesIn(test::store_bodies()),
                         [](const auto& body) { return test::name_of(body.param); });

TEST(DirectoryStore, AFolderThatCannotBeIsNamed) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "no folder";
  const auto opened = DirectoryStore::open(folder / "file");
  EXPECT_EQ(opened.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(opened.status().message()),
              AllOf(HasSubstr(folder / "file"), HasSubstr("no folder")));
  EXPECT_EQ(DirectoryStore::open("").status().code(), Code::kInvalidArgument);
}

TEST(DirectoryStore, NoObjectIsAFolderOfOthers) {
  const TempFolder folder;
  const auto store = DirectoryStore::open(folder / "s");
  ASSERT_TRUE(store.ok());
  const std::array pieces{bytes_of("x")};
  ASSERT_TRUE(*(*store)->put_if_absent("a/b", pieces));
  EXPECT_EQ((*store)->put_if_absent("a", pieces).status().code(), Code::kInvalidArgument);
  EXPECT_EQ((*store)->put_if_absent("a/b/c", pieces).status().code(), Code::kInvalidArgument);
  EXPECT_FALSE((*store)->look("a")->has_value());
  std::byte byte{};
  EXPECT_FALSE(*(*store)->read("a", 0, {&byte, 1}));
  EXPECT_TRUE((*store)->remove("a").ok());
  EXPECT_TRUE((*store)->look("a/b")->has_value());
}

// Both writers have found no object: the first link decides, and a repeated link finds its own
// work.
TEST(NewObjectFile, OnlyTheFirstLinkWins) {
  const TempFolder folder;
  const std::array one{bytes_of("one")}, two{bytes_of("two")};
  const auto first = NewObjectFile::write(folder / "k", one),
             second = NewObjectFile::write(folder / "k", two);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(*first->link_if_absent());
  EXPECT_FALSE(*second->link_if_absent());
  EXPECT_TRUE(*first->link_if_absent());
}

// Files that killed writers leave, and files of others, are no objects.
TEST(DirectoryStore, HiddenFilesAreNoObjects) {
  const TempFolder folder;
  const auto store = DirectoryStore::open(folder / "s");
  ASSERT_TRUE(store.ok());
  test::fs::create_directories(folder / "s/.snap");
  std::ofstream(folder / "s/.new-0123") << "half";
  std::ofstream(folder / "s/.snap/k") << "old";
  std::ofstream(folder / "s/a b") << "of another program";
  int seen = 0;
  ASSERT_TRUE((*store)->list("", [&](const ObjectInfo&) { return ++seen > 0; }).ok());
  EXPECT_EQ(seen, 0);
}

}  // namespace
}  // namespace sparcl::store
