// Signed contributions and signed results, through the C interface.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <string>

#include "tests/api/elastic_party.hpp"
#include "tests/support/temp_folder.hpp"

namespace {

using namespace sparcl::test::party;
using sparcl::test::TempFolder;

// RFC 8032, 7.1, tests 1 to 3.
constexpr struct {
  const char *name, *secret_line, *public_line;
} kKeys[] = {
    {"root", "sparcl-ed25519-secret nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=\n",
     "sparcl-ed25519 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"},
    {"worker", "sparcl-ed25519-secret TM0Imyj/ltqdtsNG7BFOD1uKMZ81q6Yk2oz27U+4pvs=\n",
     "sparcl-ed25519 PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"},
    {"other", "sparcl-ed25519-secret xaqN9D+fg3vtt0QvMdy3sWbThTUHbwlLhc46LgtEWPc=\n",
     "sparcl-ed25519 /FHNjmIYoaONpH7QAjDwWAgW7RO6MwOsXeuRFUiQgCU=\n"},
};

void write_key(const std::string& path, const char* line) {
  std::ofstream(path) << line;
  std::filesystem::permissions(path, std::filesystem::perms(0600));
}

class ElasticKeys : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& key : kKeys) {
      write_key(folder_ / key.name, key.secret_line);
      write_key(folder_ / (key.name + std::string(".pub")), key.public_line);
    }
  }
  sparclServeOptions_t root_options() const {
    sparclServeOptions_t options = SPARCL_SERVE_OPTIONS_INITIALIZER;
    options.model_id = "m";
    options.key_path = root_key_.c_str();
    options.contributors_path = contributors_.c_str();
    return options;
  }
  static sparclServeOptions_t branch_options(const Root& parent) {
    sparclServeOptions_t options = SPARCL_SERVE_OPTIONS_INITIALIZER;
    options.model_id = "m";
    options.parent = parent.address.c_str();
    return options;
  }
  sparclWorkerOptions_t worker_options() const {
    sparclWorkerOptions_t options = SPARCL_WORKER_OPTIONS_INITIALIZER;
    options.model_id = "m";
    options.key_path = worker_key_.c_str();
    options.trust_path = results_.c_str();
    return options;
  }

  const TempFolder folder_;
  const std::string root_key_ = folder_ / "root", worker_key_ = folder_ / "worker",
                    other_key_ = folder_ / "other", contributors_ = folder_ / "worker.pub",
                    results_ = folder_ / "root.pub", other_results_ = folder_ / "other.pub";
};

TEST_F(ElasticKeys, RoundsOfSignedContributionsAlsoThroughABranch) {
  Model served, below;
  const Root root(served, root_options());
  const Root branch(below, branch_options(root));
  Trainer near(root.address, worker_options()), far(branch.address, worker_options());
  for (std::uint64_t round = 1; round <= 2; ++round) {
    EXPECT_EQ(near.next(), round);
    EXPECT_EQ(far.next(), round);
    near.model.weights[5] += 1;
    far.model.weights[5] += 3;
    ASSERT_EQ(sparclWorkerContribute(near.worker, 1), sparclSuccess);
    ASSERT_EQ(sparclWorkerContribute(far.worker, 1), sparclSuccess);
    auto sums = std::async(std::launch::async, [&] { return branch.next(); });
    EXPECT_EQ(root.next().listed, 2u);
    (void)sums.get();
    EXPECT_EQ(served.weights[5], 2 * static_cast<float>(round));
  }
}

TEST_F(ElasticKeys, AWorkerThatIsNotTrustedIsTold) {
  Model served, below;
  const Root root(served, root_options());
  const Root branch(below, branch_options(root));
  for (const std::string& address : {root.address, branch.address}) {
    for (const char* key : {static_cast<const char*>(nullptr), other_key_.c_str()}) {
      sparclWorkerOptions_t options = worker_options();
      options.key_path = key;
      Trainer own(address, options);
      std::uint64_t version = 0;
      sparclResult_t result = sparclSuccess;
      // Through a branch a version may come before the root has turned the worker away.
      for (int i = 0; i < 100 && result != sparclUnauthorized; ++i)
        result = sparclWorkerNext(own.worker, 0.2, &version);
      EXPECT_EQ(result, sparclUnauthorized);
      EXPECT_NE(std::string(sparclGetLastError(nullptr))
                    .find(key == nullptr ? "it has no key" : "not among the 1 of"),
                std::string::npos)
          << sparclGetLastError(nullptr);
    }
  }
}

// A worker waits while its key is added to the list. An address where nobody answers does not hide
// what another one says.
TEST_F(ElasticKeys, AWorkerWhoseKeyIsAddedTakesPart) {
  Model served;
  const Root root(served, root_options());
  sparclWorkerOptions_t options = worker_options();
  options.key_path = other_key_.c_str();
  Trainer own(root.address + ",127.0.0.1:1", options);
  std::uint64_t version = 0;
  EXPECT_EQ(sparclWorkerNext(own.worker, 1, &version), sparclUnauthorized);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("not among the 1 of"), std::string::npos)
      << sparclGetLastError(nullptr);
  auto waits = std::async(std::launch::async, [&] { return own.next(); });
  std::ifstream added(other_key_ + ".pub");
  std::string line;
  std::getline(added, line);
  write_key(contributors_ + ".new", (line + '\n').c_str());
  std::filesystem::rename(contributors_ + ".new", contributors_);
  EXPECT_EQ(waits.get(), 1U);
}

TEST_F(ElasticKeys, AWorkerRefusesResultsOfAnotherKey) {
  Model served;
  const Root root(served, root_options());
  sparclWorkerOptions_t options = worker_options();
  options.trust_path = other_results_.c_str();
  Trainer own(root.address, options);
  std::uint64_t version = 0;
  EXPECT_EQ(sparclWorkerNext(own.worker, 30, &version), sparclUnauthorized);
  EXPECT_EQ(own.model.weights[5], 0);
}

TEST_F(ElasticKeys, FilesThatCannotBeUsedAreNamedBeforeAnythingStarts) {
  Model served;
  sparclServeOptions_t serve = root_options();
  serve.contributors_path = "/no/such/file";
  EXPECT_NE(Root(served, serve).result, sparclSuccess);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("/no/such/file"), std::string::npos);
  serve = root_options();
  serve.parent = "127.0.0.1:1";
  EXPECT_EQ(Root(served, serve).result, sparclInvalidArgument);
  EXPECT_NE(std::string(sparclGetLastError(nullptr)).find("key_path"), std::string::npos);
  sparclWorker_t worker = nullptr;
  sparclWorkerOptions_t options = worker_options();
  options.key_path = contributors_.c_str();
  EXPECT_NE(sparclWorkerCreate(&worker, served.state, "127.0.0.1:1", &options), sparclSuccess);
  options.key_path = "";
  EXPECT_EQ(sparclWorkerCreate(&worker, served.state, "127.0.0.1:1", &options),
            sparclInvalidArgument);
}

}  // namespace
