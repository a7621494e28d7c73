// `sparcl keygen`: a pair of files that a publisher and its subscribers can use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/trust/trusted_keys.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

unsigned permissions(const std::string& path) {
  struct stat about {};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 0777;
}

TEST(KeygenCommand, MakesAPairThatSignsAndVerifies) {
  const TempFolder folder;
  const ProgramRun run = run_program({"keygen", "-o", folder / "key", "--json"}, "umask 022; ");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(permissions(folder / "key"), 0600u);
  EXPECT_EQ(permissions(folder / "key.pub"), 0644u);
  EXPECT_EQ(folder.count(), 2u);
  const Result<trust::SigningKey> key = trust::SigningKey::load(folder / "key");
  ASSERT_TRUE(key.ok()) << key.status().message();
  const Result<trust::TrustedKeys> trusted = trust::TrustedKeys::load(folder / "key.pub");
  ASSERT_TRUE(trusted.ok()) << trusted.status().message();
  const std::array message{std::byte{1}, std::byte{2}};
  EXPECT_TRUE(trusted->verify(message, {{key->public_key(), key->sign(message)}}).ok());
  const std::string line = read_text(folder / "key.pub");
  EXPECT_EQ(run.json(), (nlohmann::json{{"ok", true},
                                        {"output", folder / "key"},
                                        {"public", folder / "key.pub"},
                                        {"public_key", line.substr(15, 44)},
                                        {"fingerprint", trust::fingerprint(key->public_key())}}));
}

TEST(KeygenCommand, SaysWhatItMadeButNotTheSecret) {
  const TempFolder folder;
  const ProgramRun run = run_program({"keygen", "--output", folder / "key"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Result<trust::SigningKey> key = trust::SigningKey::load(folder / "key");
  ASSERT_TRUE(key.ok());
  EXPECT_THAT(run.out,
              AllOf(StartsWith((folder / "key") + " "), HasSubstr((folder / "key.pub") + " "),
                    HasSubstr(trust::fingerprint(key->public_key()))));
  const std::string secret = read_text(folder / "key").substr(22, 44);
  EXPECT_EQ((run.out + run.err).find(secret), std::string::npos);
}

TEST(KeygenCommand, NeverOverwritesAKey) {
  const TempFolder folder;
  ASSERT_EQ(run_program({"keygen", "-o", folder / "key"}).exit_code, 0);
  const std::string secret = read_text(folder / "key"), line = read_text(folder / "key.pub");
  for (const char* remove : {"", "key", "key.pub"}) {
    if (*remove != '\0') fs::rename(folder / remove, folder / "aside");
    const ProgramRun refused = run_program({"keygen", "-o", folder / "key", "--json"});
    EXPECT_EQ(refused.exit_code, 1) << remove;
    EXPECT_EQ(refused.json()["error"], "sparclInvalidArgument");
    EXPECT_THAT(refused.err, HasSubstr("is there already, and keys are never overwritten"));
    EXPECT_EQ(folder.count(), 2u) << remove;
    if (*remove != '\0') fs::rename(folder / "aside", folder / remove);
  }
  EXPECT_EQ(read_text(folder / "key"), secret);
  EXPECT_EQ(read_text(folder / "key.pub"), line);
}

TEST(KeygenCommand, FailsWith1AndWrongUsageWith2) {
  const TempFolder folder;
  EXPECT_EQ(run_program({"keygen", "-o", folder / "absent/key"}).exit_code, 1);
  EXPECT_EQ(run_program({"keygen", "-o", folder / ""}).exit_code, 1);
  EXPECT_EQ(run_program({"keygen"}).exit_code, 2);
  EXPECT_EQ(run_program({"keygen", "-o"}).exit_code, 2);
  EXPECT_EQ(run_program({"keygen", "-o", folder / "key", "more"}).exit_code, 2);
  EXPECT_EQ(folder.count(), 0u);
}

}  // namespace
}  // namespace sparcl::test
