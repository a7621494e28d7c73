#include "src/transport/ucx_plugin.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/build_id.hpp"
#include "src/transport/environment_overlay.hpp"

namespace sparcl {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> all_variables() {
  std::vector<std::string> variables;
  for (char** each = environ; *each != nullptr; ++each) variables.emplace_back(*each);
  return variables;
}

void expect_refused(const std::string& path, const std::string& reason) {
  const std::vector<std::string> before = all_variables();
  const Result<const transport::UcxPlugin*> plugin = transport::load_ucx_plugin_from(path);
  ASSERT_FALSE(plugin.ok());
  EXPECT_EQ(plugin.status().code(), Code::kUnsupported);
  EXPECT_THAT(plugin.status().message(), HasSubstr(path));
  EXPECT_THAT(plugin.status().message(), HasSubstr(reason));
  EXPECT_EQ(all_variables(), before);
}

TEST(UcxPlugin, OfAnotherBuildIsRefusedByName) {
  expect_refused(SPARCL_TEST_OTHER_PLUGIN, "0.0.9-of-another-build");
  expect_refused(SPARCL_TEST_OTHER_PLUGIN, build_id());
}

TEST(UcxPlugin, ThatIsMissingIsNamedWithTheCure) {
  expect_refused("/nowhere/libsparcl_ucx.so", "install sparcl's UCX transport");
}

TEST(UcxPlugin, OtherLibrariesAreRefused) {
  expect_refused(SPARCL_TEST_NO_PLUGIN, "is no plug-in of sparcl");
}

#if SPARCL_TEST_WITH_UCX
TEST(UcxPlugin, IsLoadedOnce) {
  const Result<const transport::UcxPlugin*> first = transport::load_ucx_plugin(),
                                            second = transport::load_ucx_plugin();
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(*first, *second);
  EXPECT_EQ((*first)->try_out().message(), "");
}
#endif

constexpr std::array kAdditions{"SPARCL_TEST_OVERLAY_NEW=1", "SPARCL_TEST_OVERLAY_OLD=2"};

TEST(EnvironmentOverlay, AddsWhatIsNotSetAndTakesItBack) {
  ::setenv("SPARCL_TEST_OVERLAY_OLD", "user", 1);
  const std::vector<std::string> before = all_variables();
  {
    const transport::EnvironmentOverlay overlay(kAdditions);
    EXPECT_STREQ(std::getenv("SPARCL_TEST_OVERLAY_NEW"), "1");
    EXPECT_STREQ(std::getenv("SPARCL_TEST_OVERLAY_OLD"), "user");
  }
  EXPECT_EQ(all_variables(), before);
  ::unsetenv("SPARCL_TEST_OVERLAY_OLD");
}

TEST(EnvironmentOverlay, KeepsWhatIsSetMeanwhile) {
  {
    const transport::EnvironmentOverlay overlay(kAdditions);
    ::setenv("SPARCL_TEST_OVERLAY_MEANWHILE", "kept", 1);
  }
  EXPECT_STREQ(std::getenv("SPARCL_TEST_OVERLAY_MEANWHILE"), "kept");
  EXPECT_EQ(std::getenv("SPARCL_TEST_OVERLAY_NEW"), nullptr);
  EXPECT_EQ(std::getenv("SPARCL_TEST_OVERLAY_OLD"), nullptr);
  ::unsetenv("SPARCL_TEST_OVERLAY_MEANWHILE");
}

TEST(EnvironmentOverlay, KeepsWhatIsChangedMeanwhile) {
  ::setenv("SPARCL_TEST_OVERLAY_OLD", "before", 1);
  ::setenv("SPARCL_TEST_OVERLAY_GONE", "before", 1);
  {
    const transport::EnvironmentOverlay overlay(kAdditions);
    ::setenv("SPARCL_TEST_OVERLAY_OLD", "after", 1);
    ::unsetenv("SPARCL_TEST_OVERLAY_GONE");
  }
  EXPECT_STREQ(std::getenv("SPARCL_TEST_OVERLAY_OLD"), "after");
  EXPECT_EQ(std::getenv("SPARCL_TEST_OVERLAY_GONE"), nullptr);
  EXPECT_EQ(std::getenv("SPARCL_TEST_OVERLAY_NEW"), nullptr);
  ::unsetenv("SPARCL_TEST_OVERLAY_OLD");
}

}  // namespace
}  // namespace sparcl
