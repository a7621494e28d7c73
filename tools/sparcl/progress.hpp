#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sparcl::tool {

// A line that counts percents or bytes on a terminal's standard error, and nothing elsewhere. It
// appears only for work that takes a while.
class Progress {
 public:
  explicit Progress(std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // clears the line

  void update(std::uint64_t done, std::uint64_t all);
  void update(std::uint64_t bytes);  // of work whose size is not known
  void clear();                      // before other output; the next update() shows the line again

 private:
  using Clock = std::chrono::steady_clock;

  bool is_due();
  void write_line(const std::string& state);

  std::string what_;
  bool on_terminal_;
  bool shown_ = false;
  Clock::time_point next_;
};

}  // namespace sparcl::tool
