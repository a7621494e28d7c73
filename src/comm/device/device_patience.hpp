#pragma once
// How long a call waits for its stream, in which a kernel of the program may stand for ever: as for
// a peer, by SPARCL_TIMEOUT_S.

#include <optional>

#include "src/base/status.hpp"

namespace sparcl::comm {

class Engine;

class DevicePatience {
 public:
  explicit DevicePatience(Engine* engine) : engine_(engine) {}

  // The stream has not moved since the last time. False: it is not waited for any more, and the
  // comm has ended: by this, or else some time ago, in which a stream that is not stuck would have
  // moved.
  bool goes_on();
  void has_moved() { since_.reset(), until_.reset(); }

 private:
  Engine* engine_;
  std::optional<double> since_;
  std::optional<double> until_;  // once the comm has ended
};

// Until the stream is through with what it holds now; the engine goes on meanwhile. What a call
// then waits for is its own. An error: it is not waited for any more, and the comm has ended.
Status await_stream(Engine& engine, void* context, void* stream);

}  // namespace sparcl::comm
