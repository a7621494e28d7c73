#include "src/trust/signing_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <type_traits>

#include "src/base/files/temporary_path.hpp"
#include "tests/trust/key_support.hpp"

namespace sparcl::trust {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

static_assert(std::is_move_constructible_v<SigningKey> && std::is_move_assignable_v<SigningKey>);
static_assert(!std::is_copy_constructible_v<SigningKey> && !std::is_copy_assignable_v<SigningKey>);

SigningKey made() {
  Result<SigningKey> key = SigningKey::generate();
  EXPECT_TRUE(key.ok()) << key.status().message();
  return std::move(*key);
}

TEST(SigningKey, GivesTheKeysAndSignaturesOfRfc8032) {
  for (const Vector& vector : kVectors) {
    SCOPED_TRACE(vector.name);
    const SigningKey key = key_of(vector);
    EXPECT_EQ(key.public_key(), array_from_hex<PublicKey>(vector.key));
    EXPECT_EQ(key.sign(from_hex(vector.message)), array_from_hex<Signature>(vector.signature));
  }
}

TEST(SigningKey, IsTheSameAfterSavingAndLoading) {
  const TempFolder folder;
  const SigningKey key = made();
  ASSERT_TRUE(key.save(folder / "key").ok());
  const Result<SigningKey> loaded = SigningKey::load(folder / "key");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->public_key(), key.public_key());
  EXPECT_EQ(loaded->sign(from_hex("0102")), key.sign(from_hex("0102")));
  EXPECT_NE(key.sign(from_hex("0102")), key.sign(from_hex("0103")));
}

TEST(SigningKey, IsAnotherEachTime) {
  EXPECT_NE(made().public_key(), made().public_key());
  EXPECT_NE(fingerprint(made().public_key()), fingerprint(made().public_key()));
}

TEST(SigningKey, MovesWithItsSecret) {
  SigningKey first = key_of(kVectors[0]);
  SigningKey second = key_of(kVectors[1]);
  second = std::move(first);
  EXPECT_EQ(second.sign({}), array_from_hex<Signature>(kVectors[0].signature));
}

TEST(SigningKey, SavesASecretForTheOwnerAndAPublicKeyForAll) {
  const TempFolder folder;
  const SigningKey key = key_of(kVectors[0]);
  for (const mode_t mask : {022, 0, 0777}) {
    const std::string path = folder / fmt::format("key_{:o}", mask);
    const mode_t before = ::umask(mask);
    const Status saved = key.save(path);
    ::umask(before);
    ASSERT_TRUE(saved.ok()) << saved.message();
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_EQ(mode_of(path + ".pub"), 0644u & ~mask);
    EXPECT_EQ(read_text(path), secret_line(kVectors[0]));
  }
  EXPECT_EQ(read_text(folder / "key_22.pub"), public_line(kVectors[0]));
  EXPECT_EQ(public_key_line(key.public_key()) + "\n", public_line(kVectors[0]));
  EXPECT_EQ(folder.count(), 6u) << "nothing else is left";
}

TEST(SigningKey, NeverOverwrites) {
  for (const std::string taken : {"key", "key.pub"}) {
    const TempFolder folder;
    write_text(folder / taken, "precious");
    const Status refused = made().save(folder / "key");
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.message(),
                AllOf(HasSubstr((folder / taken) + ": "), HasSubstr("never overwritten")));
    EXPECT_EQ(read_text(folder / taken), "precious");
    EXPECT_EQ(folder.count(), 1u) << "both files or neither";
  }
  const TempFolder folder;
  ASSERT_EQ(::symlink("nowhere", (folder / "key").c_str()), 0);
  EXPECT_FALSE(made().save(folder / "key").ok()) << "nor does it write through a link";
  EXPECT_EQ(folder.count(), 1u);
}

TEST(SigningKey, LeavesNothingWhereItCannotSave) {
  const TempFolder folder;
  for (const std::string& path : {std::string(), folder / "", folder / "absent/key"}) {
    const Status refused = made().save(path);
    EXPECT_FALSE(refused.ok()) << path;
    EXPECT_FALSE(refused.message().empty());
  }
  // A disk that takes half a line: the limit of a file's size is met in the same place.
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const SigningKey key = made();
  const struct rlimit tight { 30, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Status refused = key.save(folder / "key");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(refused.code(), Code::kSystemError);
  EXPECT_THAT(refused.message(), HasSubstr("File too large"));
  EXPECT_EQ(folder.count(), 0u);
}

TEST(SigningKey, ASignalTakesNothingThatIsSaved) {
  const TempFolder folder;
  ASSERT_TRUE(made().save(folder / "key").ok());
  (void)remove_temporary_paths();  // as before the end by a signal
  EXPECT_EQ(folder.count(), 2u);
}

TEST(SigningKey, RefusesAFileThatOthersMayReadOrChange) {
  const TempFolder folder;
  const std::string path = folder / "key";
  write_text(path, secret_line(kVectors[0]));
  for (const unsigned mode : {0640u, 0604u, 0644u, 0620u, 0602u, 0677u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const Result<SigningKey> refused = SigningKey::load(path);
    ASSERT_FALSE(refused.ok()) << fmt::format("{:o}", mode);
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(refused.status().message(),
                AllOf(HasSubstr(path + ": its mode is " + fmt::format("{:04o}", mode)),
                      HasSubstr("run chmod 600 " + path)));
  }
  for (const unsigned mode : {0600u, 0400u, 0700u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(SigningKey::load(path).ok()) << fmt::format("{:o}", mode);
  }
}

TEST(SigningKey, SaysThatAPublicKeyIsNone) {
  const TempFolder folder;
  ASSERT_TRUE(made().save(folder / "key").ok());
  const Result<SigningKey> refused =
      SigningKey::load(folder / "key.pub");  // all may read it, and that is no fault
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(),
              AllOf(HasSubstr("key.pub: it is a public key"), HasSubstr("without .pub"),
                    Not(HasSubstr("chmod"))));
}

TEST(SigningKey, RefusesDamagedFilesWithoutShowingThem) {
  const TempFolder folder;
  const std::string line = secret_line(kVectors[0]);
  const std::string kind = "sparcl-ed25519-secret ";
  const std::string key = line.substr(kind.size(), 44);
  struct Row {
    const char* name;
    std::string text, says;
  };
  std::string no_base64 = key, other_base64 = key, stray_bits = key;
  no_base64[7] = '!';
  other_base64[7] = '_';  // of the alphabet for URLs
  stray_bits[42] = static_cast<char>(stray_bits[42] + 1);
  for (const Row& row : {
           Row{"cut", kind + key.substr(0, 43) + "\n",
               "line 1: the key has 43 characters of base64, not 44"},
           Row{"half", line.substr(0, 40), "line 1: the key has 18 characters"},
           Row{"long", kind + key + "AAAA\n", "line 1: the key has 48 characters"},
           Row{"no_key", kind + "\n", "line 1: the key has 0 characters"},
           Row{"no_base64", kind + no_base64 + "\n",
               "line 1: the key is not the base64 of 32 bytes: it is damaged"},
           Row{"other_base64", kind + other_base64 + "\n", "is damaged"},
           Row{"stray_bits", kind + stray_bits + "\n", "is damaged"},
           Row{"no_padding", kind + key.substr(0, 43) + "A\n", "is damaged"},
           Row{"second_line", "# mine\n" + kind + no_base64 + "\n", "line 2: "},
           Row{"two", line + line, "line 2: it holds more than 1 secret key"},
           Row{"words", kind + key + " more\n", "line 1: it is no line"},
           Row{"empty", "", "it is no secret key of sparcl"},
           Row{"other", "-----BEGIN OPENSSH PRIVATE KEY-----\n" + key + "\n",
               "it is no secret key of sparcl"},
           Row{"binary", std::string("\0\xff\n\0", 4), "it is no secret key of sparcl"},
           Row{"large", line + std::string(5000, '#'), "more than 4096 bytes"},
       }) {
    const std::string path = private_file(folder / row.name, row.text);
    const Result<SigningKey> refused = SigningKey::load(path);
    ASSERT_FALSE(refused.ok()) << row.name;
    EXPECT_EQ(refused.status().code(), Code::kInvalidArgument) << row.name;
    EXPECT_THAT(refused.status().message(), AllOf(HasSubstr(path + ": "), HasSubstr(row.says),
                                                  Not(HasSubstr(key.substr(10, 8)))));
  }
}

TEST(SigningKey, TakesWhatEditorsAddToALine) {
  const TempFolder folder;
  std::string line = secret_line(kVectors[1]);
  line.pop_back();
  for (const std::string& text :
       {line, line + "\r\n", "\n# of the trainer\n\n  " + line + " \t\n\n"}) {
    const Result<SigningKey> key = SigningKey::load(private_file(folder / "key", text));
    ASSERT_TRUE(key.ok()) << key.status().message();
    EXPECT_EQ(key->public_key(), array_from_hex<PublicKey>(kVectors[1].key));
  }
}

TEST(SigningKey, ReadsRegularFilesOnly) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (const std::string& path :
       {folder / "pipe", folder.path().string(), std::string("/dev/zero")})
    EXPECT_THAT(SigningKey::load(path).status().message(),
                HasSubstr(path + ": it is no regular file"));
  EXPECT_THAT(SigningKey::load(folder / "absent").status().message(),
              HasSubstr("absent: cannot be opened: No such file"));
}

// b2sum -l 256 of the key's 32 bytes begins so.
TEST(Fingerprint, IsTheFrontOfTheKeysHash) {
  EXPECT_EQ(fingerprint(array_from_hex<PublicKey>(kVectors[0].key)), "7849ac3049680be1");
  EXPECT_EQ(fingerprint(array_from_hex<PublicKey>(kVectors[1].key)), "6ec9e955a19ba3c9");
}

}  // namespace
}  // namespace sparcl::trust
