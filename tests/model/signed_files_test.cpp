// Signatures of files: what is signed is all that is there, and nothing else passes.

#include "src/model/files/signed_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/model/model_support.hpp"

namespace sparcl::model {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class SignedFiles : public ::testing::Test {
 protected:
  SignedFiles() {
    for (const char* name : {"first", "second"})
      EXPECT_TRUE(trust::SigningKey::generate()->save(folder_ / name).ok());
    fs::create_directories(folder_ / "model/tokenizer");
    test::write_text(folder_ / "model/a.safetensors", "weights of a");
    test::write_text(folder_ / "model/config.json", "{}");
    test::write_text(folder_ / "model/tokenizer/merges.txt", "");
    test::write_text(folder_ / "trust", test::read_text(folder_ / "first.pub") +
                                            test::read_text(folder_ / "second.pub"));
  }
  std::string model() const { return folder_ / "model"; }
  std::string signature() const { return signature_path_of(model()); }
  Result<SignatureFile> sign(const std::string& key = "first",
                             const SignedFacts& facts = {}) const {
    return sign_files(model(), **trust::SigningKeys::load(folder_ / key), signature(), facts,
                      std::filesystem::exists(signature()), {});
  }
  Status check(const WantedFacts& wanted = {}, std::size_t threshold = 1,
               const std::string& trusted = "trust") const {
    return check_signed_files(model(), *trust::TrustedKeys::load(folder_ / trusted, threshold),
                              signature(), wanted, {})
        .status();
  }
  test::TempFolder folder_;
};

TEST_F(SignedFiles, AreThoseOfAFolderAndTheFoldersInIt) {
  const Result<SignatureFile> made = sign();
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->statement.files.size(), 3u);
  EXPECT_EQ(made->statement.files[2].name, "tokenizer/merges.txt");
  EXPECT_EQ(trust::to_hex(made->statement.files[2].digest),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_TRUE(check().ok()) << check().message();
  EXPECT_EQ(signature_path_of(model() + "/"), signature());
  const std::string file = folder_ / "model/a.safetensors";
  ASSERT_TRUE(sign_files(file, **trust::SigningKeys::load(folder_ / "first"),
                         signature_path_of(file), {}, false, {})
                  .ok());
  EXPECT_TRUE(check_signed_files(file, *trust::TrustedKeys::load(folder_ / "first.pub"),
                                 signature_path_of(file), {}, {})
                  .ok());
}

TEST_F(SignedFiles, EachChangeIsFoundAndNamed) {
  ASSERT_TRUE(sign().ok());
  const struct {
    const char* name;
    const char* text;  // nullptr: removed
    const char* says;
  } kChanges[] = {
      {"config.json", "[]", "'config.json' has other bytes"},
      {"config.json", "{ }", "'config.json' has 3 bytes, 2 were signed"},
      {"tokenizer/merges.txt", nullptr, "'tokenizer/merges.txt' was signed, and is not there"},
      {"modeling.py", "evil", "'modeling.py' is not among the files that were signed"},
  };
  for (const auto& change : kChanges) {
    const std::string path = model() + "/" + change.name;
    const bool was_there = fs::exists(path);
    const std::string before = was_there ? test::read_text(path) : "";
    if (change.text != nullptr) test::write_text(path, change.text);
    if (change.text == nullptr) fs::remove(path);
    EXPECT_EQ(check().code(), Code::kCorrupt) << change.says;
    EXPECT_THAT(check().message(), HasSubstr(change.says));
    if (was_there) test::write_text(path, before);
    if (!was_there) fs::remove(path);
    EXPECT_TRUE(check().ok()) << check().message();
  }
}

TEST_F(SignedFiles, FactsAreSignedAndCompared) {
  SignedFacts facts{"policy", 7, 1'000};
  ASSERT_TRUE(sign("first", facts).ok());
  WantedFacts wanted{"policy", 7, 1'000};
  EXPECT_TRUE(check(wanted).ok()) << check(wanted).message();
  wanted.now = 1'001;
  EXPECT_EQ(check(wanted).code(), Code::kUnauthorized);
  EXPECT_THAT(check(wanted).message(), HasSubstr("expired on 1970-01-01 00:16:40 UTC"));
  EXPECT_THAT(check({"other", 0, 0}).message(),
              HasSubstr("of the model 'policy', wanted is 'other'"));
  EXPECT_THAT(check({{}, 8, 0}).message(), HasSubstr("of version 7, wanted is 8 or a later one"));
}

TEST_F(SignedFiles, SeveralPeopleSignOneAfterTheOther) {
  SignedFacts facts{"policy", 7, {}};
  ASSERT_TRUE(sign("first", facts).ok());
  EXPECT_THAT(check({}, 2).message(), HasSubstr("signed by 1 of the 2 keys"));
  ASSERT_TRUE(sign("second").ok());
  EXPECT_TRUE(check({"policy", 7, 0}, 2).ok()) << check({}, 2).message();
  ASSERT_TRUE(sign("second").ok()) << "once more changes nothing";
  EXPECT_TRUE(check({}, 2).ok());
  facts.version = 8;
  EXPECT_EQ(sign("second", facts).status().code(), Code::kMismatch);
  test::write_text(model() + "/config.json", "[]");
  EXPECT_EQ(sign("second").status().code(), Code::kMismatch);
  EXPECT_THAT(check({}, 1, "first.pub").message(), HasSubstr("'config.json'"));
}

TEST_F(SignedFiles, OtherKeysAndChangedTextsAreRefused) {
  ASSERT_TRUE(sign("second").ok());
  EXPECT_EQ(check({}, 1, "first.pub").code(), Code::kUnauthorized);
  const std::string text = test::read_text(signature());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    test::write_text(signature(), changed);
    const Status status = check();
    EXPECT_TRUE(status.code() == Code::kCorrupt || status.code() == Code::kUnauthorized)
        << i << " " << status.message();
  }
  for (const std::string& odd :
       {std::string(), text.substr(0, text.size() - 1), text + "\n", text + text,
        "sparcl signed files 1\n" + text, text.substr(0, text.find("signature"))}) {
    test::write_text(signature(), odd);
    EXPECT_EQ(check().code(), Code::kCorrupt) << odd;
  }
  fs::remove(signature());
  EXPECT_EQ(check().code(), Code::kSystemError);
}

TEST_F(SignedFiles, NamesStayInsideTheFolder) {
  const std::string digest(64, '0'), key = test::read_text(folder_ / "first.pub");
  const auto text_with = [&](const std::string& name) {
    return fmt::format("sparcl signed files 1\nfile {} 1 {}\nsignature {} {}\n", digest, name,
                       key.substr(0, key.size() - 1), std::string(128, '0'));
  };
  EXPECT_TRUE(parse_signature_file(text_with("a/b"), "x").ok());
  for (const char* name : {"", "/a", "a/", "..", "../a", "a/../b", "a//b", ".", "./a", "a\tb"})
    EXPECT_EQ(parse_signature_file(text_with(name), "x").status().code(), Code::kCorrupt) << name;
}

TEST_F(SignedFiles, WhatCannotBeSignedIsNamed) {
  test::write_text(model() + "/a\nb", "");
  EXPECT_THAT(sign().status().message(), HasSubstr("control characters"));
  fs::remove(model() + "/a\nb");
  fs::create_directories(folder_ / "empty");
  EXPECT_THAT(digest_files(folder_ / "empty", {}).status().message(), HasSubstr("no file in it"));
  EXPECT_EQ(digest_files(folder_ / "none", {}).status().code(), Code::kSystemError);
  EXPECT_EQ(sign("first", {"a\nb", 0, {}}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace sparcl::model
