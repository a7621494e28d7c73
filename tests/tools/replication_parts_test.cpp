// Parts of `sparcl publish` and `sparcl subscribe` by themselves: the watched folder, and answers
// that nobody honest gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "src/base/bytes.hpp"
#include "src/model/attachment.hpp"
#include "src/model/model_hash.hpp"
#include "tests/tools/tools_support.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/model_memory.hpp"
#include "tools/sparcl/published_model.hpp"
#include "tools/sparcl/publisher_report.hpp"
#include "tools/sparcl/watched_folder.hpp"

namespace sparcl::tool {
namespace {

using test::TempFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WatchedFolderTest : public ::testing::Test {
 protected:
  // A second later than before.
  WatchedFolder::Look look() {
    Result<WatchedFolder::Look> look = watched_.look(now_ += 1);
    EXPECT_TRUE(look.ok()) << look.status().message();
    return look.ok() ? *look : WatchedFolder::Look();
  }
  void write(const char* name, std::uint64_t seed = 1) {
    test::write_model(folder_ / name, test::small_model(seed));
  }
  void write_half(const char* name) {
    write("whole");
    test::write_text(folder_ / name, test::read_text(folder_ / "whole").substr(0, 1000));
  }

  TempFolder folder_;
  WatchedFolder watched_{folder_.path().string(), {0.5, 3.5}};
  double now_ = 0;
};

TEST_F(WatchedFolderTest, FilesCountOnceTheyStandStillInTheOrderOfTheirNames) {
  write("2.safetensors");
  write("1.safetensors");
  write(".hidden.safetensors");
  write("other.bin");
  EXPECT_THAT(look().ready, IsEmpty());
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "1.safetensors", folder_ / "2.safetensors"));
  const WatchedFolder::Look later = look();
  EXPECT_THAT(later.ready, IsEmpty());
  EXPECT_FALSE(later.has_more);
}

TEST_F(WatchedFolderTest, AFolderOfSuchANameIsToldOnce) {
  test::fs::create_directory(folder_ / "1.safetensors");
  const WatchedFolder::Look first = look();
  ASSERT_EQ(first.given_up.size(), 1u);
  EXPECT_THAT(first.given_up[0].message(), HasSubstr("1.safetensors: it is no regular file"));
  EXPECT_THAT(look().given_up, IsEmpty());
}

TEST_F(WatchedFolderTest, AFolderThatLacksItsMarkerForLongIsToldOnce) {
  test::write_shards(folder_ / "step_4", test::small_model(), 3);
  std::vector<std::string> notes;
  for (int i = 0; i < 10; ++i) {
    const WatchedFolder::Look now = look();
    EXPECT_TRUE(now.ready.empty());
    notes.insert(notes.end(), now.unmarked.begin(), now.unmarked.end());
  }
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("step_4: it has a model, but waits for the file STABLE"), notes[0].npos);
}

TEST_F(WatchedFolderTest, ALinkToNothingIsToldAndHoldsNobodyUp) {
  test::fs::create_symlink("nothing", folder_ / "1.safetensors");
  write("2.safetensors");
  const WatchedFolder::Look first = look();
  ASSERT_EQ(first.given_up.size(), 1u);
  EXPECT_THAT(first.given_up[0].message(), HasSubstr("1.safetensors: it is a link to nothing"));
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "2.safetensors"));
  test::fs::remove(folder_ / "1.safetensors");
  write("1.safetensors");
  look();
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "1.safetensors"));
}

TEST_F(WatchedFolderTest, AFileThatIsReplacedIsANewOne) {
  write("1.safetensors");
  look();
  EXPECT_EQ(look().ready.size(), 1u);
  write("next", 2);
  test::fs::rename(folder_ / "next", folder_ / "1.safetensors");
  EXPECT_TRUE(look().has_more);
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "1.safetensors"));
}

TEST_F(WatchedFolderTest, AFileRewrittenInPlaceWithItsOldTimeIsANewOne) {
  write("1.safetensors");
  const std::string path = folder_ / "1.safetensors";
  look();
  EXPECT_EQ(look().ready.size(), 1u);
  const auto time = test::fs::last_write_time(path);
  test::write_text(path, test::read_text(path));  // the same inode and size
  test::fs::last_write_time(path, time);
  EXPECT_TRUE(look().has_more);
  EXPECT_THAT(look().ready, ElementsAre(path));
}

TEST_F(WatchedFolderTest, OneThatIsBeingWrittenIsWaitedForAndThenGivenUp) {
  write_half("1.safetensors");
  write("2.safetensors");
  look();
  const WatchedFolder::Look waits = look();
  EXPECT_TRUE(waits.has_more);
  EXPECT_THAT(waits.ready, IsEmpty()) << "the later one waits, too";
  EXPECT_THAT(look().held_up.message(), HasSubstr(folder_ / "1.safetensors"));
  EXPECT_TRUE(look().held_up.ok()) << "told once";
  const WatchedFolder::Look given_up = look();
  ASSERT_EQ(given_up.given_up.size(), 1u);
  EXPECT_THAT(given_up.given_up[0].message(), HasSubstr(folder_ / "1.safetensors"));
  EXPECT_THAT(given_up.ready, ElementsAre(folder_ / "2.safetensors"));
  EXPECT_THAT(look().given_up, IsEmpty()) << "told once";
  write("1.safetensors");
  look();
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "1.safetensors")) << "its writer came back";
}

TEST_F(WatchedFolderTest, OneThatKeepsChangingIsGivenUpAndLaterOnesPass) {
  write("2.safetensors");
  std::string log;
  const auto append = [&] { test::write_text(folder_ / "1.safetensors", log += "a line\n"); };
  WatchedFolder::Look seen;
  int looks = 0;
  for (; looks < 20 && seen.given_up.empty(); ++looks) {
    append();
    now_ -= 0.7;  // 0.3 s from look to look: it never stands still
    seen = look();
  }
  EXPECT_LT(looks, 20) << "it is waited for as often as it changes";
  ASSERT_EQ(seen.given_up.size(), 1u);
  EXPECT_THAT(seen.given_up[0].message(), HasSubstr("1.safetensors: it goes on changing"));
  EXPECT_THAT(seen.ready, ElementsAre(folder_ / "2.safetensors"));
  for (int i = 0; i < 10; ++i) {
    append();
    now_ -= 0.7;
    seen = look();
    EXPECT_THAT(seen.given_up, IsEmpty()) << "told once";
    EXPECT_FALSE(seen.has_more) << "nobody waits for it again";
  }
  write("whole");
  test::write_text(folder_ / "1.safetensors", test::read_text(folder_ / "whole"));
  look();
  EXPECT_THAT(look().ready, ElementsAre(folder_ / "1.safetensors")) << "its writer has finished";
}

TEST_F(WatchedFolderTest, WhatCouldNotBeReadComesAgainUntilItIsGivenUp) {
  const Status why(Code::kSystemError, "1.safetensors: reading 7 bytes failed");
  write("1.safetensors");
  write("2.safetensors");
  look();
  for (int i = 0; i < 3; ++i) {
    const WatchedFolder::Look again = look();
    ASSERT_THAT(again.ready, ElementsAre(folder_ / "1.safetensors", folder_ / "2.safetensors"))
        << i;
    watched_.put_back(again.ready, why);
  }
  const WatchedFolder::Look given_up = look();
  ASSERT_EQ(given_up.given_up.size(), 1u);
  EXPECT_EQ(given_up.given_up[0].message(), why.message());
  EXPECT_THAT(given_up.ready, ElementsAre(folder_ / "2.safetensors"));
}

TEST(ModelMemory, ReadingAFileThatIsCutMeanwhileFails) {
  const TempFolder folder;
  test::write_model(folder / "1", test::small_model());
  const Result<model::Checkpoint> checkpoint = model::Checkpoint::open_unread(folder / "1");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const Result<std::unique_ptr<ModelMemory>> memory = ModelMemory::create(checkpoint->schema());
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  ASSERT_TRUE((*memory)->read(*checkpoint).ok());
  const Hash128 whole = (*memory)->view().hash();
  EXPECT_EQ(*model::state_hash(checkpoint->schema(), (*memory)->tensors()), whole);
  test::fs::resize_file(folder / "1", 5000);
  EXPECT_THAT((*memory)->read(*checkpoint).message(), HasSubstr("1: it ends at byte 5000"));
}

TEST(WatchedFolder, SaysThatThereIsNone) {
  const TempFolder folder;
  WatchedFolder absent(folder / "absent", {});
  EXPECT_THAT(absent.look(0).status().message(), HasSubstr("absent: cannot be listed"));
}

replication::ModelReply reply_of(const model::Schema& schema, std::vector<std::byte> description) {
  return {"", model::serialise(schema), std::move(description)};
}

TEST(PublishedModel, ComesWithTheLayoutOfItsFilesOrWithoutOne) {
  const model::Schema schema = test::small_model().schema;
  model::Layout layout = model::single_file_layout(schema, {{"step", "7"}});
  layout.files[0].header += "    ";
  const Result<std::vector<std::byte>> description = describe_layout(layout);
  ASSERT_TRUE(description.ok()) << description.status().message();
  const Result<PublishedModel> described = read_published_model(reply_of(schema, *description));
  ASSERT_TRUE(described.ok()) << described.status().message();
  EXPECT_EQ(described->layout, layout);
  EXPECT_EQ(described->schema, schema);
  const Result<PublishedModel> plain = read_published_model(reply_of(schema, {}));
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  EXPECT_EQ(plain->layout, model::single_file_layout(schema, {}));
}

TEST(PublishedModel, RefusesWhatCannotBe) {
  const model::Schema schema = test::small_model().schema;
  const std::vector<std::byte> description =
      *describe_layout(model::single_file_layout(schema, {}));
  model::Schema other = schema;
  other[0].name = "renamed";
  EXPECT_EQ(read_published_model(reply_of(other, description)).status().code(), Code::kCorrupt);
  EXPECT_EQ(read_published_model({"", {std::byte{1}, std::byte{2}}, {}}).status().code(),
            Code::kCorrupt);
  for (std::size_t at = 0; at < description.size(); at += 7) {
    std::vector<std::byte> damaged = description;
    damaged[at] ^= std::byte{0x55};
    const Result<PublishedModel> read = read_published_model(reply_of(schema, damaged));
    EXPECT_TRUE(!read.ok() || *model::layout_schema(read->layout) == schema) << at;
    damaged.resize(at);
    EXPECT_TRUE(at == 0 || !read_published_model(reply_of(schema, damaged)).ok())
        << at;  // of no bytes: it says nothing
  }
  // 1 PB, claimed by some bytes.
  const model::Schema huge{{"huge", DataType::kUint8, {std::uint64_t{1} << 50}}};
  EXPECT_EQ(read_published_model(reply_of(huge, {})).status().code(), Code::kOutOfMemory);
}

// Lists whose entries take a hundred times their bytes of memory: the end is missing, which nobody
// has come to see.
TEST(PublishedModel, RefusesListsThatTakeTooMuchMemoryBeforeItReadsThem) {
  ByteWriter tensors;
  tensors.write_varint(600'000);
  tensors.write_bytes(std::vector<std::byte>(2'000'000));
  EXPECT_THAT(read_published_model({"", tensors.take(), {}}).status().message(),
              HasSubstr("600000 tensors"));
  ByteWriter dimensions;
  dimensions.write_varint(1);
  dimensions.write_varint(1);
  dimensions.write_bytes(std::as_bytes(std::span("w", 1)));
  dimensions.write(static_cast<std::uint8_t>(DataType::kUint8));
  dimensions.write_varint(5'000'000);
  dimensions.write_bytes(std::vector<std::byte>(5'000'000));
  EXPECT_EQ(read_published_model({"", dimensions.take(), {}}).status().code(), Code::kUnsupported);

  model::Attachment attachment;
  attachment.layout.emplace().is_folder = true;
  attachment.layout->files.resize(100'001);
  const std::vector<std::byte> many = model::serialise(attachment);
  EXPECT_EQ(model::parse_attachment(many, 100'000).status().code(), Code::kCorrupt);
  EXPECT_TRUE(model::parse_attachment(many).ok());
  EXPECT_THAT(read_published_model(reply_of(test::small_model().schema, many)).status().message(),
              HasSubstr("description of files"));
  attachment.layout->has_edits = true;
  attachment.layout->files.resize(100);
  for (model::FileChange& each : attachment.layout->files) each.edits.removals.resize(1024);
  EXPECT_EQ(model::parse_attachment(model::serialise(attachment), 100'000).status().code(),
            Code::kCorrupt);
}

TEST(PublisherReport, IsTextThatDrivesNoTerminal) {
  const Result<Json> report = parse_publisher_report(
      R"({"publisher":"host a, pid 1","address":"a:1","model_id":"m","version":7,"hash":"00","signed":true,"kept_updates":2,"kept_bytes":3,)"
      R"("peer_bytes":1000,"peer_bytes_limit":67108864,"refused":{"handshake":4,"slots":2,"role":0,"new\u001b":1},)"
      R"("replicas":[{"name":"evil\u001b[2J","version":6,"lag":1,"bytes_sent":5000,"refused":0,"state":"behind","from":"publisher"},17,{},)"
      R"({"name":"liar","version":null,"lag":null}],"replicas_left_out":4})");
  ASSERT_TRUE(report.ok()) << report.status().message();
  const std::string text = publisher_text(*report);
  EXPECT_THAT(text, HasSubstr("version 7, signed"));
  EXPECT_THAT(text, HasSubstr("peers cause 1 KB of 67.1 MB"));
  EXPECT_THAT(text, HasSubstr("refused: handshake 4, slots 2\n"));
  EXPECT_THAT(text, HasSubstr("evil\\x1b[2J"));
  EXPECT_THAT(text, HasSubstr("behind  publisher\n"));
  EXPECT_THAT(text, testing::ContainsRegex("liar +unknown +unknown"));
  EXPECT_THAT(text, HasSubstr("4 more replicas are connected; a report has no room for them\n"));
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(PublisherReport, DoesNotSayWhetherWeSucceeded) {
  const Result<Json> report =
      parse_publisher_report(R"({"publisher":"x","ok":false,"replicas":[]})");
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_FALSE(report->contains("ok"));
}

TEST(PublisherReport, HasNoReasonsOfAnOlderPublisherOrAFalseOne) {
  for (const char* text :
       {R"({"publisher":"x","replicas":[]})", R"({"publisher":"x","refused":7,"replicas":[]})"}) {
    const Result<Json> report = parse_publisher_report(text);
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(publisher_text(*report).find("refused:"), std::string::npos) << text;
  }
}

TEST(PublisherReport, RefusesWhatIsNone) {
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(R"({"publisher":"x","replicas":7})"),
        std::string(),
        R"({"publisher":"x","replicas":[],"deep":)" + std::string(100'000, '[') +
            std::string(100'000, ']') + "}"}) {
    EXPECT_EQ(parse_publisher_report(text).status().code(), Code::kCorrupt) << text.substr(0, 40);
  }
}

}  // namespace
}  // namespace sparcl::tool
