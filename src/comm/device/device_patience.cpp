#include "src/comm/device/device_patience.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/comm/engine/engine.hpp"
#include "src/gpu/device_stream.hpp"

namespace sparcl::comm {
namespace {

// The other ranks wait for this rank as long: this rank gives up first, so that the error names the
// cause. Heuristic.
double own_share(double timeout_s) { return timeout_s - std::min(timeout_s / 4, 5.0); }

constexpr double kDepartureSeconds =
    0.2;  // far above the time of a call's own kernels and copies. Heuristic
constexpr double kStreamIdleSeconds = 0.0001;  // between two looks at a stream

}  // namespace

bool DevicePatience::goes_on() {
  transport::Transport& transport = engine_->transport();
  const double now = transport.now();
  if (!since_) since_ = now;
  if (engine_->health().ok()) {
    const double limit = own_share(engine_->timeout_s());
    if (now < *since_ + limit) return true;
    engine_->fail(
        Status(Code::kTimeout,
               fmt::format("rank {} ({}) has waited {:.3g} s for the stream of its call: the GPU "
                           "has not finished the work in it, such as a kernel that does not end. "
                           "SPARCL_TIMEOUT_S allows a longer wait",
                           transport.rank(), transport.describe_peer(transport.rank()), limit)),
        transport.rank());
    until_ = now;
  }
  if (!until_) until_ = now + kDepartureSeconds;
  return now < *until_;
}

Status await_stream(Engine& engine, void* context, void* stream) {
  const gpu::DeviceScope inside(context);
  SPARCL_RETURN_IF_ERROR(inside.status());
  SPARCL_ASSIGN_OR_RETURN(const gpu::DeviceEvent end, gpu::DeviceEvent::record(context, stream));
  transport::Transport& transport = engine.transport();
  DevicePatience patience(&engine);
  for (std::uint64_t idle_turns = 0; !end.is_over();) {
    if (!patience.goes_on()) return engine.health();
    if (engine.step()) {
      idle_turns = 0;
    } else {
      transport.idle(++idle_turns, transport.now() + kStreamIdleSeconds);
    }
  }
  return Status();
}

}  // namespace sparcl::comm
