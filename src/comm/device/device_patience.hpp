#pragma once
// How long a call waits for its stream, in which a user's kernel may never finish: as long as for a
// peer, by SPARCL_TIMEOUT_S.

#include <optional>

#include "src/base/status.hpp"

namespace sparcl::comm {

class Engine;

class DevicePatience {
 public:
  explicit DevicePatience(Engine* engine) : engine_(engine) {}

  // Called when the stream has not advanced since the last call. False: the wait ends, and the
  // communicator has ended. This call has ended it, or it ended so long ago that a stream that is
  // not stuck would have advanced.
  bool goes_on();
  void has_moved() { since_.reset(), until_.reset(); }

 private:
  Engine* engine_;
  std::optional<double> since_;
  std::optional<double> until_;  // set once the communicator has ended
};

// Waits until the stream has finished its present work; the engine continues meanwhile. Later waits
// of a call are then for its own work. An error: the wait has ended, and the communicator has
// ended.
Status await_stream(Engine& engine, void* context, void* stream);

}  // namespace sparcl::comm
