#pragma once
// A line at the bottom of a terminal that is written over; nothing where the output is no terminal.

#include <string>

namespace training {

class ProgressLine {
 public:
  ProgressLine();
  void show(const std::string& text) const;
  void clear() const;

 private:
  bool is_terminal_;
};

}  // namespace training
