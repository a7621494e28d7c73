// `sparcl info` says which GPUs, driver and NCCL there are, and what a path lacks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

namespace sparcl::test {
namespace {

using testing::HasSubstr;

std::string run_info(const std::string& before, const char* options) {
  const std::string line = "unset SPARCL_TRACE SPARCL_TEST_LONG; " + before +
                           " '" SPARCL_PROGRAM "' info " + options + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), &::pclose);
  std::string text;
  char piece[4096];
  while (const std::size_t got = std::fread(piece, 1, sizeof piece, pipe.get()))
    text.append(piece, got);
  return text;
}

nlohmann::json row(const nlohmann::json& info, const char* part, const std::string& name) {
  for (const nlohmann::json& each : info[part]) {
    if (each["name"] == name) return each;
  }
  return {};
}

const std::string kFakes = "LD_LIBRARY_PATH=" SPARCL_FAKE_LIBRARIES ":" SPARCL_FAKE_DRIVER " ";

TEST(NcclInfo, NamesWhatIsThere) {
  const auto info = nlohmann::json::parse(run_info(kFakes + "FAKE_GPUS=2", "--json"));
  EXPECT_EQ(info["gpus"]["driver"], "99.0");
  EXPECT_EQ(info["gpus"]["nccl"], "2.28.9");
  EXPECT_EQ(info["gpus"]["reason"], "");
  ASSERT_EQ(info["gpus"]["devices"].size(), 2u);
  EXPECT_EQ(info["gpus"]["devices"][1]["name"], "Fake GPU 1");
  EXPECT_EQ(info["gpus"]["devices"][1]["memory_bytes"], std::uint64_t{3} << 30);
  EXPECT_EQ(info["gpus"]["devices"][1]["compute_capability"], "9.0");
  EXPECT_EQ(row(info, "transports", "nccl")["usable"], info["gpus"]["built_with_cuda"]);
  EXPECT_EQ(row(info, "kernels", "cuda")["usable"], info["gpus"]["built_with_cuda"]);
  EXPECT_THAT(row(info, "transports", "nccl")["reason"].get<std::string>(),
              HasSubstr("NCCL 2.28.9 (libnccl.so.2)"));
  const std::string text = run_info(kFakes, "");
  EXPECT_THAT(
      text,
      HasSubstr("GPUs, driver of CUDA 99.0\n  0   Fake GPU 0, 3072 MiB, compute capability 9.0\n"));
}

TEST(NcclInfo, SaysWhatIsMissing) {
  const auto no_gpu = nlohmann::json::parse(run_info(kFakes + "FAKE_GPUS=0", "--json"));
  EXPECT_THAT(no_gpu["gpus"]["reason"].get<std::string>(), HasSubstr("the driver has no GPU"));
  EXPECT_EQ(row(no_gpu, "transports", "nccl")["usable"], false);
  for (const auto& [setting, reason] :
       {std::pair("FAKE_DRIVER=10020", "the driver knows CUDA 10.2, this build's kernels need "),
        {"FAKE_CAPABILITY=7",
         "Fake GPU 0 has compute capability 7.0, this build's kernels need 8.0"}}) {
    const auto old = nlohmann::json::parse(run_info(kFakes + setting, "--json"));
    if (!old["gpus"]["built_with_cuda"].get<bool>()) break;
    for (const auto& [part, name] : {std::pair("transports", "nccl"), {"kernels", "cuda"}}) {
      EXPECT_EQ(row(old, part, name)["usable"], false);
      EXPECT_THAT(row(old, part, name)["reason"].get<std::string>(), HasSubstr(reason));
    }
  }
  const auto no_nccl =
      nlohmann::json::parse(run_info(kFakes + "SPARCL_NCCL_LIBRARY=libnot_there.so", "--json"));
  EXPECT_TRUE(no_nccl["gpus"]["nccl"].is_null());
  EXPECT_THAT(row(no_nccl, "transports", "nccl")["reason"].get<std::string>(),
              HasSubstr("libnot_there.so cannot be loaded"));
  EXPECT_EQ(row(no_nccl, "transports", "nccl")["usable"], false);
}

}  // namespace
}  // namespace sparcl::test
