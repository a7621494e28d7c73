#pragma once
// Whether UCX can be set up on this machine with the UCX_ settings of this environment.

#include <string>

namespace sparcl {

struct UcxCheck {
  bool usable;
  std::string reason;  // of what is not; empty where nothing stands against it
};
// Loads UCX for it, and leaves it loaded: no command that works on files links it. Call it once, before there are threads.
UcxCheck check_ucx();

}  // namespace sparcl
