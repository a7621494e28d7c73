#include "src/net/heartbeat/heartbeat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "src/base/log.hpp"
#include "src/base/settings.hpp"
#include "src/net/heartbeat/heartbeat_peers.hpp"

namespace sparcl::net {

Status HeartbeatOptions::check_silence(double seconds, const char* name) const {
  if (seconds >= period_s) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("{}={:g} is shorter than the time between two pings, "
                            "SPARCL_HEARTBEAT_MS={:g}: set it to three pings or more",
                            name, seconds, 1e3 * period_s));
}

void HeartbeatOptions::set_silence(double seconds) {
  silence_s = std::max(seconds, 3 * period_s);  // one lost datagram is no death
  // A waiting rank repeats watch() now and then; on an oversubscribed machine it is late.
  watch_s = std::max({1.0, 3 * period_s, silence_s / 2});
}

Result<std::optional<HeartbeatOptions>> heartbeat_options(std::optional<bool> is_on) {
  const Result<std::string> wanted = setting_choice("HEARTBEAT");
  const Result<double> period_ms = setting_number("HEARTBEAT_MS");
  const Result<double> silence_s = setting_number("LIVENESS_S");
  for (const Status& status : {wanted.status(), period_ms.status(), silence_s.status()})
    SPARCL_RETURN_IF_ERROR(status);
  if (!is_on.value_or(*wanted != "off")) return std::optional<HeartbeatOptions>();
  HeartbeatOptions options;
  options.period_s = *period_ms * 1e-3;
  if (*period_ms < 1) {
    return Status(Code::kInvalidArgument,
                  fmt::format("SPARCL_HEARTBEAT_MS={:g}: expected 1 or more (SPARCL_HEARTBEAT=off "
                              "turns heartbeats off)",
                              *period_ms));
  }
  SPARCL_RETURN_IF_ERROR(options.check_silence(*silence_s, "SPARCL_LIVENESS_S"));
  options.set_silence(*silence_s);
  static std::atomic_flag is_told;
  if (options.silence_s > *silence_s * (1 + 1e-9) &&
      !is_told.test_and_set()) {  // 3 * 0.2 is more than 0.6
    log_warn(
        "SPARCL_LIVENESS_S={:g} is less than three pings (SPARCL_HEARTBEAT_MS={:g}): a silent rank "
        "is given up after {:g} s",
        *silence_s, *period_ms, options.silence_s);
  }
  return std::optional(options);
}

Heartbeat::Heartbeat() = default;

Result<std::unique_ptr<Heartbeat>> Heartbeat::open(const HeartbeatOptions& options,
                                                   std::shared_ptr<HeartbeatService> service) {
  if (service == nullptr) {
    SPARCL_ASSIGN_OR_RETURN(std::shared_ptr<HeartbeatService> own, HeartbeatService::of_process());
    service = std::move(own);
  }
  std::unique_ptr<Heartbeat> made(new Heartbeat);
  made->peers_ = std::make_unique<Peers>(options, std::move(service), made->deaths_);
  SPARCL_RETURN_IF_ERROR(made->peers_->make_card());
  return made;
}

Heartbeat::~Heartbeat() {
  if (peers_ != nullptr && !peers_->stop())
    (void)peers_.release();  // a child of fork(): the service may be in any state
}

const std::vector<std::byte>& Heartbeat::card() const { return peers_->card(); }
Status Heartbeat::start(int rank, std::span<const std::vector<std::byte>> cards) {
  return peers_->start(rank, cards);
}
void Heartbeat::watch(int peer) { peers_->watch(peer); }
void Heartbeat::set_event(const WakeEvent* event) { peers_->set_event(event); }
std::optional<Status> Heartbeat::dead(int peer) const { return peers_->dead(peer); }
std::vector<Heartbeat::Obituary> Heartbeat::obituaries() const { return peers_->obituaries(); }
bool Heartbeat::has_answered(int peer) const { return peers_->has_answered(peer); }
std::string Heartbeat::describe(int peer) const { return peers_->describe(peer); }

void Heartbeat::give_up(int peer) { peers_->give_up(peer); }
void Heartbeat::go_on_without(int peer) { peers_->go_on_without(peer); }
void Heartbeat::retire() { peers_->retire(); }

void Heartbeat::leave() { peers_->leave(); }

}  // namespace sparcl::net
