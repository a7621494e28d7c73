#include "examples/language_model/char_text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace training {
namespace {

TEST(CharText, NumbersCharactersByValueAndHoldsOutATenth) {
  const CharText text("bcabcabcab");
  EXPECT_EQ(text.vocabulary(), 3);
  EXPECT_EQ(text.training().size(), 9U);
  EXPECT_EQ(text.held_out().size(), 1U);
  EXPECT_EQ(text.training()[0], 1);
  EXPECT_EQ(text.character(text.training()[2]), 'a');
}

TEST(CharText, TakesAllBytes) {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  const CharText text(every + every);
  EXPECT_EQ(text.vocabulary(), 256);
  EXPECT_EQ(text.character(text.training()[200]), static_cast<char>(200));
}

TEST(DrawBatch, TargetsAreTheNextCharacters) {
  std::vector<Token> text(50);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<Token>(i);
  SeededRandom random(1, 1);
  const Batch batch = draw_batch(text, 3, 8, random);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    EXPECT_EQ(batch.targets[i], batch.tokens[i] + 1);
    EXPECT_EQ(batch.tokens[i], batch.tokens[i % 3] + i / 3);
  }
}

TEST(DrawBatch, RefusesTextThatIsTooShort) {
  SeededRandom random(1, 1);
  EXPECT_THROW(draw_batch(std::vector<Token>(8), 1, 8, random), std::runtime_error);
  EXPECT_NO_THROW(draw_batch(std::vector<Token>(9), 1, 8, random));
}

TEST(ReadText, JoinsFilesAndNamesTheOneThatIsMissing) {
  const auto folder = std::filesystem::path(testing::TempDir());
  std::ofstream(folder / "char_text_1") << "one ";
  std::ofstream(folder / "char_text_2") << "two";
  EXPECT_EQ(read_text({folder / "char_text_1", folder / "char_text_2"}), "one two");
  try {
    (void)read_text({folder / "char_text_none"});
    FAIL() << "a missing file was read";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("char_text_none"), std::string::npos);
  }
}

}  // namespace
}  // namespace training
