#pragma once
// The signal dispositions of this process, to restore them after foreign code.

#include <signal.h>

#include <array>

namespace sparcl::transport {

class SignalDispositions {
 public:
  SignalDispositions();    // as they are now
  void give_back() const;  // restores each one that has changed since

 private:
  std::array<struct sigaction, NSIG> actions_{};
};

}  // namespace sparcl::transport
