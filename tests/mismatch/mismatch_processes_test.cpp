// Ranks that call otherwise than the others: the whole table over ucx, ranks as processes that meet
// without MPI.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "tests/support/process_party.hpp"

namespace sparcl::test {
namespace {

constexpr double kDeadlineSeconds = 120;  // beyond it is a hang

class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sparcl_mismatch_XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

class MismatchProcesses : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(MismatchProcesses, EveryArgumentOfEveryCollectiveIsAgreedOn) {
  const auto [lanes, ranks] = GetParam();
  const Folder folder;
  ASSERT_NE(folder.path(), "");
  ProcessParty party;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessCommand command;
    command.arguments = {SPARCL_TEST_MISMATCH_RANK, std::to_string(rank), std::to_string(ranks),
                         folder.path()};
    command.environment = {{"UCX_TLS", lanes}, {"SPARCL_DEBUG", "off"}};
    ASSERT_EQ(party.start(command), rank) << party.trouble();
  }
  EXPECT_TRUE(party.finish(kDeadlineSeconds)) << "a hang";
  for (int rank = 0; rank < ranks; ++rank) {
    const ProcessRecord& record = party.record(rank);
    std::string said = record.errors;
    for (const ProcessLine& line : record.lines) said += line.text + "\n";
    EXPECT_TRUE(record.exited_with(0)) << "rank " << rank << ": " << record.describe_end() << "\n"
                                       << said;
  }
}

INSTANTIATE_TEST_SUITE_P(Ucx, MismatchProcesses,
                         testing::Combine(testing::Values("all", "tcp"),
                                          testing::Values(2, 3, 4, 8)),
                         [](const auto& row) {
                           return std::string(std::get<0>(row.param)) + "_ranks_" +
                                  std::to_string(std::get<1>(row.param));
                         });

}  // namespace
}  // namespace sparcl::test
