#pragma once
// Warnings about peers. Each peer is named: a second replica of one host is not hidden by the
// first. A peer with the same trouble again and again is named ever more rarely. If many peers have
// one trouble within a minute, a summary names those that have no line of their own.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/repeated_messages.hpp"

namespace sparcl::replication {

class PeerWarnings {
 public:
  // Logs `text`, or keeps it for the summary. kind: what several of them did, "have gone without a
  // goodbye". peer: its identity.
  void say(const std::string& kind, const std::string& peer, const std::string& text);
  // Sets the time of the warnings that follow. Logs the summaries that are due.
  void tick(double now);

 private:
  struct Kind {
    double since = -1e9;  // the minute's begin
    int named = 0;        // in lines of their own
    std::uint64_t held_back = 0;
    std::vector<std::string> names;  // the first of those that were held back
  };
  static void summarise(const std::string& kind, Kind& of);

  double now_ = 0;
  RepeatedMessages repeated_;
  std::map<std::string, Kind> kinds_;
};

}  // namespace sparcl::replication
