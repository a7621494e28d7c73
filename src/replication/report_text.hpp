#pragma once
// The report of a publisher, or of a replica that passes updates on, about its connections. Their
// names are what they say themselves: whatever that is, a report is one message.

#include <cstdint>
#include <string>
#include <string_view>

#include "src/replication/message.hpp"
#include "src/replication/report_fields.hpp"

namespace sparcl::replication {

// The middle of a long name is left out, and a hash of the name stands there. The end says where
// the replica comes from.
std::string shown_name(std::string_view name);

class ReportText {
 public:
  // head: an object with something in it. list: an array of what is added. max_bytes: of the text,
  // and more than the head has.
  ReportText(const ReportFields& head, std::string_view list,
             std::size_t max_bytes = kMaxReportBytes);

  // False: there is no room for it, and the list stays as it is.
  bool add(const ReportFields& entry);

  // left_out: entries for which the list has no room, as the last member LIST_left_out.
  std::string text(std::uint64_t left_out = 0) const;

 private:
  std::string text_;  // without its end
  std::string end_;   // without the last number
  std::size_t max_bytes_;
  bool is_first_ = true;
};

}  // namespace sparcl::replication
