#pragma once
// Messages that repeat, as when a program retries a refused call each second. They are logged at
// once, then ever more rarely. For one thread.

#include <cstdint>
#include <string>
#include <vector>

namespace sparcl {

class RepeatedMessages {
 public:
  // How often `key`'s message has come since it was last logged, this time included: log it now. 0:
  // do not.
  std::uint64_t count(const std::string& key, double now);

 private:
  struct Entry {
    std::string key;
    double said_at;
    double seen_at;
    double pause_s;  // between the last log entry and the next
    std::uint64_t unsaid;
  };
  std::vector<Entry> entries_;
};

// Empty for 1, else " (60 times since it was last said)".
std::string times_text(std::uint64_t count);

}  // namespace sparcl
