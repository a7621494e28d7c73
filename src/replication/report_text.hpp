#pragma once
// The report of a publisher, or of a replica that passes updates on, about its connections. Their
// names are what they say themselves: whatever that is, a report is one message.

#include <string>
#include <string_view>

#include "src/replication/message.hpp"
#include "src/replication/report_fields.hpp"

namespace sparcl::replication {

// The middle of a long name is left out: the end says where the replica comes from.
std::string shown_name(std::string_view name);

class ReportText {
 public:
  // head: an object with something in it. list: its last member, an array of what is added.
  // max_bytes: of the text, and more than the head has.
  ReportText(const ReportFields& head, std::string_view list,
             std::size_t max_bytes = kMaxReportBytes);

  // False: there is no room for it, and the list stays as it is.
  bool add(const ReportFields& entry);

  std::string text() const { return text_ + kEnd; }

 private:
  static constexpr const char* kEnd = "]}";

  std::string text_;  // without its end
  std::size_t max_bytes_;
  bool is_first_ = true;
};

}  // namespace sparcl::replication
