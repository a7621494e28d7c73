#pragma once
// What this process does at each signal, to give it back after code that is not ours.

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
