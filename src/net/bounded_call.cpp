#include "src/net/bounded_call.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "src/net/signals_blocked.hpp"

namespace sparcl::net {
namespace {

constexpr double kEndPatience = 1;  // seconds; heuristic

Status result_of(const std::function<Status()>& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(Code::kOutOfMemory, "");
  } catch (const std::exception& error) {
    return Status(Code::kSystemError, error.what());
  }
}

}  // namespace

BoundedCall::~BoundedCall() {
  if (is_under_way()) (void)wait(kEndPatience);
}

Status BoundedCall::start(std::function<Status()> call) {
  const auto state = std::make_shared<State>();
  try {
    const SignalsBlocked blocked;
    std::thread([state, call = std::move(call)]() mutable {
      Status result = result_of(call);
      call = nullptr;  // what it owns goes before the result is there
      const std::lock_guard lock(state->mutex);
      state->result = std::move(result);
      state->ended.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return Status(Code::kSystemError, fmt::format("no thread for a call: {}", error.what()));
  }
  state_ = state;
  return {};
}

std::optional<Status> BoundedCall::wait(double seconds) {
  std::optional<Status> result;
  {
    std::unique_lock lock(state_->mutex);
    const auto has_ended = [&] { return state_->result.has_value(); };
    const std::chrono::duration<double> limit(seconds);
    if (!state_->ended.wait_for(lock, limit, has_ended)) return result;
    result = std::move(state_->result);
  }
  state_ = nullptr;
  return result;
}

}  // namespace sparcl::net
