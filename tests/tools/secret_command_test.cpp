// `sparcl secret`, and the service between programs that have its files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "src/trust/role_secret.hpp"
#include "tests/tools/training_program.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(SecretCommand, MakesAFileForEachRole) {
  const TempFolder folder;
  const ProgramRun run = run_program({"secret", "-o", folder / "run", "--json"}, "umask 000; ");
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(folder.count(), 3u);
  const Result<trust::RoleSecret> secret = trust::RoleSecret::load(folder / "run");
  ASSERT_TRUE(secret.ok()) << secret.status().message();
  const std::string line = trust::public_key_line(secret->publisher_key());
  EXPECT_EQ(run.json(),
            (nlohmann::json{{"ok", true},
                            {"output", folder / "run"},
                            {"replicate", folder / "run.replicate"},
                            {"observe", folder / "run.observe"},
                            {"public_key", line.substr(line.find(' ') + 1)},
                            {"fingerprint", trust::fingerprint(secret->publisher_key())},
                            {"secrets", 1}}));
  for (const char* name : {"run", "run.replicate", "run.observe"}) {
    struct stat about {};
    ASSERT_EQ(::stat((folder / name).c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0600u) << name;
    const std::string text = read_text(folder / name);
    const std::string word = text.substr(text.find(' ') + 1, 44);
    EXPECT_EQ((run.out + run.err).find(word), std::string::npos) << name;
  }
  EXPECT_EQ(run_program({"secret", "-o", folder / "run"}).exit_code, 1);
  EXPECT_EQ(run_program({"secret"}).exit_code, 2);
  EXPECT_EQ(folder.count(), 3u);
}

TEST(SecretCommand, RenewsASecretAndEndsTheOldOnes) {
  const TempFolder folder;
  const std::string path = folder / "run";
  ASSERT_EQ(run_program({"secret", "-o", path}).exit_code, 0);
  const std::string first = read_text(path), replicas = read_text(path + ".replicate");
  const ProgramRun renewed = run_program({"secret", "-o", path, "--renew"});
  ASSERT_EQ(renewed.exit_code, 0) << renewed.err;
  EXPECT_THAT(renewed.out, HasSubstr("1 older secret is still accepted"));
  const std::string both = read_text(path);
  EXPECT_TRUE(both.ends_with(first) && both.size() == 2 * first.size());
  const Result<std::vector<trust::RoleSecret>> loaded = trust::RoleSecret::load_all(path, 8);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const std::vector<trust::RoleSecret>& secrets = *loaded;
  ASSERT_EQ(secrets.size(), 2u);
  EXPECT_NE(read_text(path + ".replicate"), replicas);
  EXPECT_EQ(trust::RoleSecret::load(path + ".replicate")->publisher_key(),
            secrets[0].publisher_key());
  EXPECT_EQ(trust::RoleSecret::load(path + ".observe")->publisher_key(),
            secrets[0].publisher_key());
  ASSERT_EQ(run_program({"secret", "-o", path, "--end-old"}).exit_code, 0);
  EXPECT_EQ(read_text(path), both.substr(0, first.size()));
  EXPECT_EQ(folder.count(), 3u);

  const ProgramRun weaker = run_program({"secret", "-o", path + ".replicate", "--renew"});
  EXPECT_EQ(weaker.exit_code, 1);
  EXPECT_THAT(weaker.err, HasSubstr("give the publisher's file"));
  EXPECT_EQ(run_program({"secret", "-o", folder / "none", "--renew"}).exit_code, 1);
  EXPECT_EQ(run_program({"secret", "-o", path, "--renew", "--end-old"}).exit_code, 2);
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(run_program({"secret", "-o", path, "--renew"}).exit_code, 0);
  const ProgramRun full = run_program({"secret", "-o", path, "--renew"});
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_THAT(full.err, HasSubstr("--end-old"));
}

// The two ways out are named, and nothing listens.
TEST(SecretCommand, WithoutOneNoOtherMachineReachesAPublisher) {
  Training training;
  const std::string file = training.write_up_to(1)[0];
  for (const char* listen : {":0", "0.0.0.0:0", "[::]:0"}) {
    const ProgramRun refused =
        run_program({"publish", "--listen", listen, "--exit-when-acked", "0", file});
    EXPECT_EQ(refused.exit_code, 2) << listen;
    EXPECT_THAT(refused.err,
                AllOf(HasSubstr("--listen"), HasSubstr("--secret FILE"), HasSubstr("--insecure")));
  }
  const ProgramRun metrics = run_program({"publish", "--metrics", "0.0.0.0:0", "--exit-when-acked",
                                          "0", "--listen", "127.0.0.1:0", file});
  EXPECT_EQ(metrics.exit_code, 2);
  EXPECT_THAT(metrics.err, AllOf(HasSubstr("--metrics"), HasSubstr("--insecure")));
  const ProgramRun open = run_program(
      {"publish", "--listen", "0.0.0.0:0", "--insecure", "--exit-when-acked", "0", file});
  EXPECT_EQ(open.exit_code, 0) << open.err;
  const ProgramRun local = run_program({"publish", "--exit-when-acked", "0", file});
  EXPECT_EQ(local.exit_code, 0) << local.err;
  EXPECT_THAT(local.out, HasSubstr("listening on 127.0.0.1:"));
}

TEST(SecretCommand, ProgramsWithItsFilesFollowEachOther) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(2);
  ASSERT_EQ(run_program({"secret", "-o", training / "run"}).exit_code, 0);
  ASSERT_EQ(run_program({"secret", "-o", training / "other"}).exit_code, 0);
  BackgroundProgram publisher(
      publish({"--secret", training / "run", "--interval", "0.5", files[0], files[1]}, ":0"));
  const std::string address = publisher.address();
  BackgroundProgram stranger(subscribe(address, training / "out", {"--timeout", "3"}));
  BackgroundProgram other(subscribe(address, training / "out",
                                    {"--secret", training / "other.replicate", "--timeout", "3"}));
  BackgroundProgram observer(subscribe(address, training / "out",
                                       {"--secret", training / "run.observe", "--timeout", "3"}));
  BackgroundProgram replica(subscribe(address, training / "good",
                                      {"--secret", training / "run.replicate", "--until", "2"}));
  EXPECT_EQ(replica.exit_code(), 0) << replica.err();
  expect_same(training / "good", files[1]);
  EXPECT_TRUE(fs::exists(training / "good.sparcl-record"));
  EXPECT_EQ(run_program({"status", address, "--json"}).exit_code, 1);
  const ProgramRun status =
      run_program({"status", address, "--secret", training / "run.observe", "--json"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_EQ(status.json()["version"], 2);
  EXPECT_EQ(status.json()["signed"], true);
  EXPECT_EQ(stranger.exit_code(), 1) << stranger.err();
  EXPECT_THAT(stranger.err(), HasSubstr("it has a secret or certificates, or the link was cut"));
  EXPECT_EQ(other.exit_code(), 1) << other.err();
  EXPECT_THAT(other.err(), HasSubstr("another secret, or none"));
  EXPECT_EQ(observer.exit_code(), 3) << observer.err();
  EXPECT_THAT(observer.err(), HasSubstr("role observe"));
  EXPECT_FALSE(fs::exists(training / "out"));
}

// By a subscriber that waits for its first version, and by a publisher that has none yet.
TEST(SecretCommand, FilesThatChangeBeforeTheFirstVersionAreReadAgain) {
  Training training;
  const std::string secret = training / "run", own = training / "own";
  ASSERT_EQ(run_program({"secret", "-o", secret}).exit_code, 0);
  ASSERT_EQ(run_program({"secret", "-o", training / "other"}).exit_code, 0);
  fs::copy(training / "other.replicate", own);
  BackgroundProgram publisher(publish({"--secret", secret, "--watch", training.watched()}));
  BackgroundProgram replica(
      subscribe(publisher.address(), training / "out", {"--secret", own, "--until", "1"}));
  EXPECT_TRUE(replica.says("another secret, or none")) << replica.err();
  ASSERT_EQ(run_program({"secret", "-o", secret, "--renew"}).exit_code, 0);
  fs::rename(secret + ".replicate", own);
  EXPECT_TRUE(replica.says("nothing is published there yet")) << replica.err();
  training.write(1);
  EXPECT_EQ(replica.exit_code(), 0) << replica.err();
}

// Two models with one secret: a redirected replica does not swap them.
TEST(SecretCommand, AFileStaysThatOfItsModel) {
  Training training;
  const std::vector<std::string> files = training.write_up_to(2);
  ASSERT_EQ(run_program({"secret", "-o", training / "run"}).exit_code, 0);
  const std::string own = training / "run", replicate = training / "run.replicate";
  BackgroundProgram a(publish({"--secret", own, "--model-id", "a", files[0]}));
  const std::string out = training / "out";
  BackgroundProgram first(subscribe(a.address(), out, {"--secret", replicate, "--until", "1"}));
  EXPECT_EQ(first.exit_code(), 0) << first.err();
  BackgroundProgram b(publish({"--secret", own, "--model-id", "b", files[1]}));  // it begins later
  BackgroundProgram second(
      subscribe(b.address(), out, {"--secret", replicate, "--until", "1", "--timeout", "20"}));
  EXPECT_EQ(second.exit_code(), 3) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the record is of the model"));
  expect_same(out, files[0]);
}

TEST(SecretCommand, TheSettingNamesItToo) {
  Training training;
  const std::string file = training.write_up_to(1)[0];
  ASSERT_EQ(run_program({"secret", "-o", training / "run"}).exit_code, 0);
  const ProgramRun open = run_program({"publish", "--listen", ":0", "--exit-when-acked", "0", file},
                                      fmt::format("SPARCL_SECRET='{}' ", training / "run"));
  EXPECT_EQ(open.exit_code, 0) << open.err;
  const ProgramRun wrong =
      run_program({"publish", "--listen", ":0", "--exit-when-acked", "0", file},
                  fmt::format("SPARCL_SECRET='{}' ", training / "run.observe"));
  EXPECT_EQ(wrong.exit_code, 3) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("only that of role publish signs"));
}

}  // namespace
}  // namespace sparcl::test
