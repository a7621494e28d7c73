// `sparcl sign`, `verify-signature` and `trust`, as people use them one after the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SignCommand : public ::testing::Test {
 protected:
  SignCommand() {
    for (const char* name : {"ann", "bob"}) {
      const ProgramRun made = run_program({"keygen", "-o", folder_ / name, "--json"});
      EXPECT_EQ(made.exit_code, 0) << made.err;
      fingerprints_.push_back(made.json()["fingerprint"]);
    }
    fs::create_directory(model());
    write_text(model() + "/model.safetensors", "bytes");
    write_text(model() + "/config.json", "{}");
  }
  std::string model() const { return folder_ / "model"; }
  ProgramRun verify(std::vector<std::string> more) const {
    std::vector<std::string> all{"verify-signature", model()};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  TempFolder folder_;
  std::vector<std::string> fingerprints_;
};

TEST_F(SignCommand, WhatIsSignedIsVerifiedAndWhatIsChangedIsRefused) {
  const ProgramRun made = run_program({"sign", model(), "--key", folder_ / "ann", "--model-id", "m",
                                       "--model-version", "7", "--expires", "30", "--json"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.json()["files"], 2);
  EXPECT_EQ(made.json()["version"], 7);
  EXPECT_EQ(made.json()["keys"][0], fingerprints_[0]);
  const std::string trust = folder_ / "ann.pub";
  const ProgramRun ok = verify({"--trust", trust, "--model-id", "m", "--min-version", "7"});
  EXPECT_EQ(ok.exit_code, 0) << ok.err;
  EXPECT_THAT(ok.out,
              AllOf(HasSubstr("ok: 2 files"), HasSubstr("version 7"), HasSubstr(fingerprints_[0])));
  EXPECT_EQ(verify({"--trust", folder_ / "bob.pub"}).exit_code, 3);
  EXPECT_EQ(verify({"--trust", trust, "--model-id", "n"}).exit_code, 3);
  EXPECT_EQ(verify({"--trust", trust, "--min-version", "8"}).exit_code, 3);
  EXPECT_EQ(verify({}).exit_code, 2);
  write_text(model() + "/config.json", "[]");
  const ProgramRun changed = verify({"--trust", trust, "--json"});
  EXPECT_EQ(changed.exit_code, 3);
  EXPECT_EQ(changed.json()["error"], "sparclCorrupt");
  EXPECT_THAT(std::string(changed.json()["message"]), HasSubstr("config.json"));
}

TEST_F(SignCommand, TwoPeopleSignAndATrustFileChanges) {
  ASSERT_EQ(run_program({"sign", model(), "--key", folder_ / "ann"}).exit_code, 0);
  const ProgramRun twice = run_program({"sign", model(), "--key", folder_ / "bob"});
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.err, HasSubstr("--add"));
  ASSERT_EQ(run_program({"sign", model(), "--key", folder_ / "bob", "--add"}).exit_code, 0);
  const std::string keys = folder_ / "keys";
  const ProgramRun added = run_program(
      {"trust", keys, "--add", folder_ / "ann.pub", "--add", folder_ / "bob.pub", "--json"});
  ASSERT_EQ(added.exit_code, 0) << added.err;
  EXPECT_EQ(added.json()["keys"].size(), 2u);
  EXPECT_EQ(verify({"--trust", keys, "--trust-threshold", "2"}).exit_code, 0);
  EXPECT_EQ(verify({"--trust", folder_ / "ann.pub", "--trust-threshold", "2"}).exit_code, 1);
  write_text(keys, "# whom we trust\n" + read_text(keys));
  const ProgramRun removed = run_program({"trust", keys, "--remove", fingerprints_[1]});
  EXPECT_EQ(removed.exit_code, 0) << removed.err;
  EXPECT_THAT(removed.out, AllOf(HasSubstr(fingerprints_[0] + "  line 2"),
                                 testing::Not(HasSubstr(fingerprints_[1]))));
  EXPECT_EQ(read_text(keys), "# whom we trust\n" + read_text(folder_ / "ann.pub"));
  EXPECT_EQ(verify({"--trust", keys}).exit_code, 0);
  const ProgramRun last = run_program({"trust", keys, "--remove", fingerprints_[0]});
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_THAT(last.err, HasSubstr("no key would be left"));
  const ProgramRun unknown = run_program({"trust", keys, "--remove", "0123456789abcdef"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no key there has the fingerprint"));
  EXPECT_EQ(run_program({"trust", keys, "--add", folder_ / "ann"}).exit_code, 1) << "a secret key";
  EXPECT_EQ(run_program({"trust", folder_ / "none"}).exit_code, 1);
  EXPECT_EQ(read_text(keys), "# whom we trust\n" + read_text(folder_ / "ann.pub"));
}

}  // namespace
}  // namespace sparcl::test
