#include "src/replication/report_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "src/model/text.hpp"

namespace sparcl::replication {
namespace {

using nlohmann::ordered_json;

TEST(ReportText, ShownNamesAreShortAndEndWhereTheReplicaComesFrom) {
  const std::string usual = "host h1, pid 4711 (127.0.0.1:50000)";
  EXPECT_EQ(shown_name(usual), usual);
  const std::string from = " ([fd00:1111:2222:3333:4444:5555:6666:7777]:50000)";
  for (const std::string letter : {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (std::size_t shift = 0; shift < 4; ++shift) {
      std::string name(shift, 'x');
      while (name.size() < 4090) name += letter;
      const std::string shown = shown_name(name + from);
      EXPECT_LE(shown.size(), 200U);
      EXPECT_GT(shown.size(), 190U);
      EXPECT_TRUE(model::is_utf8(shown)) << shown;
      EXPECT_TRUE(shown.ends_with(from)) << shown;
    }
  }
  EXPECT_LE(shown_name(std::string(4096, '\x80')).size(), 200U);
}

// Or two replicas would have one series in the metrics.
TEST(ReportText, DifferentNamesStayDifferent) {
  std::string first(300, 'x'), second = first;
  second[130] = 'y';
  EXPECT_NE(shown_name(first), shown_name(second));
  const auto text_of = [](const char* name) { return ReportFields({{"name", name}}).text(); };
  EXPECT_NE(text_of("a\xff"), text_of("a\xfe"));
  EXPECT_NE(text_of("a\xff"), text_of("a\xef\xbf\xbd"));
  EXPECT_NE(text_of("a\xff"), text_of("a\xef\xbf\xbd"
                                      "ff"));
}

TEST(ReportText, IsNeverLongerThanAMessage) {
  const ReportFields head{{"publisher", "a \"name\""}, {"replicas_connected", 100'000}};
  for (const char* name : {"\"", "x", "\x01", "\xff"}) {
    ReportText text(head, "replicas");
    std::size_t added = 0;
    const ReportFields entry{{"name", std::string(200, *name)}, {"version", 7}};
    while (text.add(entry)) ++added;
    EXPECT_LE(text.text(UINT64_MAX).size(), kMaxReportBytes);
    EXPECT_GT(text.text().size(), kMaxReportBytes - 2000) << "there is room";
    const ordered_json read = ordered_json::parse(text.text(), nullptr, false);
    ASSERT_TRUE(read.is_object());
    EXPECT_EQ(read["replicas"].size(), added);
    EXPECT_EQ(read["replicas"][added - 1]["version"], 7);
    EXPECT_EQ(read["publisher"], "a \"name\"");
    EXPECT_EQ(ordered_json::parse(text.text(17))["replicas_left_out"], 17);
  }
}

TEST(ReportText, WritesWhatOthersRead) {
  const std::string name = "a \"quoted\\\" name,\n\x1b[31m \xc3\xa4 \xff";
  const ReportFields fields{{"name", name},
                            {"none", ReportFields::Value()},
                            {"count", std::uint64_t{1} << 63},
                            {"less", -5},
                            {"ratio", 0.25},
                            {"yes", true}};
  const ordered_json read = ordered_json::parse(fields.text());
  EXPECT_EQ(read["name"],
            "a \"quoted\\\" name,\n\x1b[31m \xc3\xa4 \xef\xbf\xbd"
            "ff");
  EXPECT_TRUE(read["none"].is_null());
  EXPECT_EQ(read["count"], std::uint64_t{1} << 63);
  EXPECT_EQ(read["less"], -5);
  EXPECT_EQ(read["ratio"], 0.25);
  EXPECT_EQ(read["yes"], true);
}

TEST(ReportText, OfNobodyIsAnEmptyList) {
  EXPECT_EQ(ReportText({{"version", 1}}, "replicas").text(),
            R"({"version":1,"replicas":[],"replicas_left_out":0})");
}

}  // namespace
}  // namespace sparcl::replication
