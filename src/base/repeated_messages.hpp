#pragma once
// Messages that come again and again, as from a program that tries each second what is refused each
// time: said at once, then ever more rarely. One thread's.

#include <cstdint>
#include <string>
#include <vector>

namespace sparcl {

class RepeatedMessages {
 public:
  // How often `key`'s message has come since it was said last, this time included: it is to be said
  // now. 0: it is not.
  std::uint64_t count(const std::string& key, double now);

 private:
  struct Entry {
    std::string key;
    double said_at;
    double seen_at;
    double pause_s;  // between the last time it was said and the next
    std::uint64_t unsaid;
  };
  std::vector<Entry> entries_;
};

// Empty for 1, else " (60 times since it was last said)".
std::string times_text(std::uint64_t count);

}  // namespace sparcl
