// A subscriber that starts with a damaged or forged file: it says so, and fetches no more than the
// blocks that are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/replication/forged_state.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kBlocks = 24, kBlockBytes = 131'072;

struct DamagedFile : ::testing::Test {
  DamagedFile() {
    add_tensor(tensors, "weights", DataType::kBfloat16, {kBlocks, kBlockBytes / 2}, 1);
    EXPECT_TRUE(forgery.is_found());
    forgery.prepare(tensors.bytes[0].data());
    write_model(folder / "1", tensors);
  }
  // Byte `at` of the tensor.
  void damage(const std::vector<std::size_t>& positions) const {
    std::string file = read_text(folder / "out");
    for (const std::size_t at : positions) file[file.size() - tensors.bytes[0].size() + at] ^= 1;
    write_text(folder / "out", file);
  }
  void forge() const {
    std::string file = read_text(folder / "out");
    forgery.apply(
        reinterpret_cast<std::byte*>(file.data() + file.size() - tensors.bytes[0].size()));
    write_text(folder / "out", file);
    constexpr std::size_t kHashDigits = 32;
    ASSERT_EQ(run_program({"hash", folder / "out"}).out.substr(0, kHashDigits),
              run_program({"hash", folder / "1"}).out.substr(0, kHashDigits));
  }
  std::vector<std::string> subscribing(BackgroundProgram& publisher,
                                       std::vector<std::string> more) const {
    return subscribe(publisher.address(), folder / "out", std::move(more));
  }

  TempFolder folder;
  Tensors tensors;
  replication::Forgery forgery;
};

TEST_F(DamagedFile, IsMendedBlockByBlock) {
  ASSERT_EQ(run_program({"keygen", "-o", folder / "key"}).exit_code, 0);
  BackgroundProgram without(publish({folder / "1"}));
  BackgroundProgram with_key(publish({"--model-id", "m", "--key", folder / "key", folder / "1"}));
  for (const bool is_signed : {false, true}) {
    std::vector<std::string> more{"--until", "1"};
    if (is_signed) more.insert(more.end(), {"--trust", folder / "key.pub", "--model-id", "m"});
    const std::vector<std::string> command = subscribing(is_signed ? with_key : without, more);
    fs::remove(folder / "out");
    ASSERT_EQ(run_program(command).exit_code, 0);
    for (const bool is_forged : {false, true}) {
      if (is_forged) forge();
      if (!is_forged) damage({5, 7 * kBlockBytes + 9, 8 * kBlockBytes, 23 * kBlockBytes + 1});
      const std::size_t damaged = is_forged ? 1 : 4;
      BackgroundProgram again(command);
      EXPECT_EQ(again.exit_code(), 0) << again.err();
      const json line = again.version(1);
      EXPECT_EQ(line["source"], "repair") << again.err();
      EXPECT_EQ(line["damaged_blocks"], damaged);
      EXPECT_LT(line["bytes"], (damaged + 1) * kBlockBytes);
      EXPECT_THAT(again.err(),
                  HasSubstr(fmt::format(
                      "{} was damaged, or changed: {} of {} blocks were not version 1's (SHA-256)",
                      folder / "out", damaged, kBlocks)));
      expect_same(folder / "out", folder / "1");
    }
  }
}

// The publisher's newest version alone is there to compare with, and differs in each block.
TEST_F(DamagedFile, IsReplacedWholeAndSaysWhyIfTooMuchDiffers) {
  Tensors next = tensors;
  change(next, 0.01, 2);
  write_model(folder / "2", next);
  {
    BackgroundProgram before(publish({folder / "1"}));
    ASSERT_EQ(run_program(subscribing(before, {"--until", "1"})).exit_code, 0);
  }
  damage({5});
  BackgroundProgram publisher(publish({folder / "2"}));
  BackgroundProgram again(subscribing(publisher, {"--until", "1"}));
  EXPECT_EQ(again.exit_code(), 0) << again.err();
  EXPECT_EQ(again.version(1)["source"], "anchor");
  EXPECT_THAT(again.err(),
              AllOf(HasSubstr("version 1 comes with all its bytes: more than half of the blocks")));
  expect_same(folder / "out", folder / "2");
}

}  // namespace
}  // namespace sparcl::test
