// Deltas that name their ends by a SHA-256 tree: a base that an attacker chose to have the same
// state hash is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/replication/forged_state.hpp"
#include "tests/tools/tools_support.hpp"

namespace sparcl::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kWeights = 70'000;

class DeltaIdentity : public ::testing::Test {
 protected:
  DeltaIdentity() {
    std::string header = fmt::format(
        R"({{"w":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{}]}}}})", kWeights, 2 * kWeights);
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::uint64_t length = header.size();
    head_.assign(reinterpret_cast<const char*>(&length), sizeof length);
    head_ += header;
    std::string data(2 * kWeights, '\0');
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 37 % 113);
    replication::forgery().prepare(reinterpret_cast<std::byte*>(data.data()));
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < 40; ++i) {
        if (step > 0) data[2 * (kWeights - 1 - 97 * i)] ^= static_cast<char>(step);
      }
      write_text(at("s", step), head_ + data);
    }
    std::string forged = read_text(at("s", 0));
    replication::forgery().apply(reinterpret_cast<std::byte*>(forged.data() + head_.size()));
    write_text(folder_ / "forged", forged);
  }
  std::string at(const char* kind, int step) const {
    return folder_ / fmt::format("{}{}", kind, step);
  }
  ProgramRun diff(int step, std::vector<std::string> more) const {
    std::vector<std::string> all{"diff", at("s", step - 1), at("s", step), "-o", at("d", step)};
    all.insert(all.end(), more.begin(), more.end());
    return run_program(all);
  }
  std::string hash(const std::string& path, const char* kind) const {
    return run_program({"hash", path, "--kind", kind, "--json"}).json()["hash"];
  }
  nlohmann::json inspected(const std::string& path) const {
    return run_program({"inspect", path, "--json"}).json();
  }

  TempFolder folder_;
  std::string head_;
};

TEST_F(DeltaIdentity, ABaseWithTheSameStateHashIsRefused) {
  ASSERT_TRUE(replication::forgery().is_found());
  ASSERT_EQ(hash(folder_ / "forged", "state"), hash(at("s", 0), "state"));
  ASSERT_EQ(diff(1, {"--identities"}).exit_code, 0);
  const nlohmann::json told = inspected(at("d", 1));
  EXPECT_EQ(told["base_identity"], hash(at("s", 0), "identity"));
  EXPECT_EQ(told["target_identity"], hash(at("s", 1), "identity"));
  EXPECT_EQ(run_program({"apply", at("s", 0), at("d", 1), "-o", folder_ / "out"}).exit_code, 0);
  EXPECT_EQ(read_text(folder_ / "out"), read_text(at("s", 1)));
  const ProgramRun refused =
      run_program({"apply", folder_ / "forged", at("d", 1), "-o", folder_ / "evil"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("though it has its state hash"), HasSubstr("identity")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "evil"));
  ASSERT_EQ(diff(1, {}).exit_code, 0);
  EXPECT_EQ(inspected(at("d", 1))["base_identity"], nullptr);
  EXPECT_EQ(
      run_program({"apply", folder_ / "forged", at("d", 1), "-o", folder_ / "evil"}).exit_code, 0)
      << "without identities nothing tells the two apart";
}

TEST_F(DeltaIdentity, ChainsAndInversesKeepThem) {
  ASSERT_EQ(diff(1, {"--identities", "--mode", "flat"}).exit_code, 0);
  ASSERT_EQ(diff(2, {"--identities", "--mode", "flat"}).exit_code, 0);
  const std::string first = hash(at("s", 0), "identity"), last = hash(at("s", 2), "identity");
  const std::string all = folder_ / "all", back = folder_ / "back";
  for (const bool with_base : {false, true}) {
    std::vector<std::string> compose{"compose", at("d", 1), at("d", 2), "-o", all};
    if (with_base) compose.insert(compose.end(), {"--base", at("s", 0)});
    const ProgramRun composed = run_program(compose);
    ASSERT_EQ(composed.exit_code, 0) << composed.err;
    EXPECT_EQ(inspected(all)["base_identity"], first);
    EXPECT_EQ(inspected(all)["target_identity"], last);
    EXPECT_EQ(run_program({"apply", at("s", 0), all, "-o", folder_ / "out"}).exit_code, 0);
    EXPECT_EQ(read_text(folder_ / "out"), read_text(at("s", 2)));
  }
  ASSERT_EQ(run_program({"invert", at("s", 0), all, "-o", back}).exit_code, 0);
  EXPECT_EQ(inspected(back)["base_identity"], last);
  EXPECT_EQ(inspected(back)["target_identity"], first);
  // A part of the chain that names other bytes of the same state hash.
  write_text(folder_ / "kept", read_text(at("s", 0)));
  ASSERT_EQ(run_program({"diff", folder_ / "forged", at("s", 1), "-o", folder_ / "odd",
                         "--identities", "--mode", "verbatim"})
                .exit_code,
            0);
  ASSERT_EQ(run_program({"invert", at("s", 0), at("d", 1), "-o", back}).exit_code, 0);
  const ProgramRun odd = run_program(
      {"compose", back, folder_ / "odd", "-o", folder_ / "never", "--base", at("s", 1)});
  EXPECT_EQ(odd.exit_code, 3) << odd.err;
  EXPECT_FALSE(std::filesystem::exists(folder_ / "never"));
  // One without identities: the chain has none.
  ASSERT_EQ(diff(2, {"--mode", "flat"}).exit_code, 0);
  ASSERT_EQ(run_program({"compose", at("d", 1), at("d", 2), "-o", all}).exit_code, 0);
  EXPECT_EQ(inspected(all)["base_identity"], nullptr);
}

TEST_F(DeltaIdentity, OnlyExactDeltasHaveThem) {
  const ProgramRun refused = diff(1, {"--identities", "--largest", "10"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--identities"), testing::Not(HasSubstr("options."))));
  EXPECT_FALSE(std::filesystem::exists(at("d", 1)));
}

}  // namespace
}  // namespace sparcl::test
