#include "src/base/settings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <cstdlib>
#include <set>
#include <string>

namespace sparcl {
namespace {

using testing::HasSubstr;
using testing::Not;

// Sets a variable of the environment for one scope. Tests of this program run on one thread.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Settings, RowsAreCompleteAndUnique) {
  std::set<std::string> names;
  for (const SettingRow& row : setting_rows()) {
    EXPECT_TRUE(names.insert(std::string(row.name)).second) << row.name;
    for (const char c : row.name)
      EXPECT_TRUE(std::isupper(static_cast<unsigned char>(c)) || c == '_' ||
                  std::isdigit(static_cast<unsigned char>(c)))
          << row.name;
    EXPECT_FALSE(row.meaning.empty()) << row.name;
    EXPECT_FALSE(row.fallback.empty()) << row.name;
    EXPECT_EQ(row.type == SettingType::kChoice, !row.choices.empty()) << row.name;
  }
  EXPECT_FALSE(names.empty());
}

TEST(Settings, DefaultsParse) {
  for (const SettingRow& row : setting_rows()) {
    const std::string variable = "SPARCL_" + std::string(row.name);
    unsetenv(variable.c_str());
    EXPECT_EQ(setting(row.name).source, "default") << row.name;
    EXPECT_TRUE(check_setting(row).ok()) << row.name;
  }
}

TEST(Settings, TheEnvironmentWins) {
  const Environment environment("SPARCL_TIMEOUT_S", "2.5");
  EXPECT_EQ(setting("TIMEOUT_S").text, "2.5");
  EXPECT_EQ(setting("TIMEOUT_S").source, "environment");
  const Result<double> seconds = setting_number("TIMEOUT_S");
  ASSERT_TRUE(seconds.ok());
  EXPECT_EQ(*seconds, 2.5);
}

TEST(Settings, ASecretIsNotShown) {
  for (const SettingRow& row : setting_rows()) {
    if (row.type != SettingType::kSecret) continue;
    EXPECT_EQ(shown_value(row), row.fallback);
    const Environment environment(("SPARCL_" + std::string(row.name)).c_str(), "key-of-nobody");
    EXPECT_EQ(shown_value(row), "(set)");
  }
}

TEST(Settings, AnEmptyVariableIsNone) {
  const Environment environment("SPARCL_VERIFY", "");
  EXPECT_EQ(setting("VERIFY").source, "default");
  EXPECT_TRUE(setting_choice("VERIFY").ok());
}

TEST(Settings, RefusesNumbersThatAreNone) {
  for (const char* text : {"0", "x", "1x", " 1", "1 ", "-1", "nan", "inf", "1e999", "1e99", "1.1e8",
                           "0x10", "1,5", "--1"}) {
    const Environment environment("SPARCL_TIMEOUT_S", text);
    const Result<double> value = setting_number("TIMEOUT_S");
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_EQ(value.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(value.status().message(), HasSubstr(std::string("SPARCL_TIMEOUT_S=") + text));
    EXPECT_THAT(value.status().message(), HasSubstr("at most 1e8 (three years)"));
  }
}

TEST(Settings, RefusesChoicesThatAreNone) {
  for (const char* text : {"ful", "FULL", "off|full", "|", "touched "}) {
    const Environment environment("SPARCL_VERIFY", text);
    const Result<std::string> value = setting_choice("VERIFY");
    ASSERT_FALSE(value.ok()) << text;
    EXPECT_THAT(value.status().message(), HasSubstr("off|touched|full"));
  }
}

TEST(Settings, ChecksEachRowByWhatItAccepts) {
  for (const SettingRow& row : setting_rows()) {
    const std::string variable = "SPARCL_" + std::string(row.name);
    EXPECT_TRUE(check_setting(row).ok()) << row.name;
    if (row.type == SettingType::kText || row.type == SettingType::kSecret)
      continue;  // takes anything
    const Environment environment(variable.c_str(), "nonsense");
    const Status status = check_setting(row);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << row.name;
    EXPECT_THAT(status.message(), HasSubstr(accepted_values(row)));
    EXPECT_THAT(accepted_values(row),
                row.choices.empty() ? HasSubstr("number") : HasSubstr(std::string(row.choices)));
  }
}

TEST(Settings, TakesEveryChoice) {
  for (const char* text : {"off", "touched", "full"}) {
    const Environment environment("SPARCL_VERIFY", text);
    const Result<std::string> value = setting_choice("VERIFY");
    ASSERT_TRUE(value.ok()) << text;
    EXPECT_EQ(*value, text);
  }
}

// The log's level is read once a process, so this test must be the only one that looks at the log.
TEST(Settings, WarnsOnceOfUnknownNames) {
  const Environment misspelt("SPARCL_TIMOUT_S", "5");
  const Environment begun("SPARCL_KERN", "cpu");
  const Environment unknown("SPARCL_NONSENSE", "5");
  const Environment known("SPARCL_TIMEOUT_S", "5");
  testing::internal::CaptureStderr();
  warn_of_unknown_settings();
  warn_of_unknown_settings();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(
      log,
      HasSubstr(
          "SPARCL_TIMOUT_S is set, but no setting has this name: did you mean SPARCL_TIMEOUT_S?"));
  EXPECT_EQ(log.find("SPARCL_TIMOUT_S"), log.rfind("SPARCL_TIMOUT_S")) << log;
  EXPECT_THAT(
      log,
      HasSubstr("SPARCL_KERN is set, but no setting has this name: did you mean SPARCL_KERNELS?"));
  EXPECT_THAT(
      log,
      HasSubstr("SPARCL_NONSENSE is set, but no setting has this name: `sparcl info` lists them"));
  EXPECT_THAT(log, Not(HasSubstr("SPARCL_TIMEOUT_S is set")));
}

TEST(SettingsDeathTest, ANameThatIsNoRowIsABug) { EXPECT_DEATH((void)setting("NO_SUCH_NAME"), ""); }

}  // namespace
}  // namespace sparcl
