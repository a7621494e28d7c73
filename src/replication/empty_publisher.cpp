#include "src/replication/empty_publisher.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "src/replication/process_name.hpp"
#include "src/replication/report_text.hpp"

namespace sparcl::replication {
namespace {

constexpr double kSecretsPeriod = 1;  // seconds between two looks at the file; heuristic

}  // namespace

Result<std::unique_ptr<EmptyPublisher>> EmptyPublisher::create(const Listener& listener,
                                                               const std::string& model_id,
                                                               double silence_s,
                                                               const ServerSecurity& security) {
  std::unique_ptr<EmptyPublisher> made(new EmptyPublisher(listener, model_id, silence_s, security));
  net::Socket own(::fcntl(listener.socket.fd(), F_DUPFD_CLOEXEC, 0));
  if (!own.is_open())
    return Status(Code::kSystemError,
                  fmt::format("no descriptor for {}: {}", listener.address, error_text(errno)));
  made->server_ = std::make_unique<Server>(std::move(own), made->context_);
  EmptyPublisher* it = made.get();
  SPARCL_RETURN_IF_ERROR(made->thread_.start(
      "a publisher", [it](const net::ServiceThread::Stop& stop) { it->serve(stop); }));
  return made;
}

EmptyPublisher::EmptyPublisher(const Listener& listener, const std::string& model_id,
                               double silence_s, const ServerSecurity& security)
    : clock_(net::clock_slack_s(silence_s)) {
  const ReportFields report{{"publisher", process_name()},
                            {"model_id", model_id},
                            {"address", listener.address},
                            {"version", 0},
                            {"hash", ""}};
  status_ = ReportText(report, "replicas").text();
  context_.model_id = model_id;
  context_.name = process_name();
  context_.silence_s = context_.handshake_s = silence_s;
  security_ = security;
  context_.tls = security.tls;
  if (security.secrets != nullptr) {
    context_.prove = [secrets = security.secrets](PeerTag peer,
                                                  std::span<const std::byte> exporter) {
      return secrets->prove(peer, exporter);
    };
  }
  context_.closed = "nothing is published there yet";
  context_.status_report = [this] { return status_; };
}

void EmptyPublisher::look_for_new_secrets() {
  const double now = net::monotonic_seconds();
  if (now - looked_at_ < kSecretsPeriod) return;
  looked_at_ = now;
  if (!security_.file.has_changed()) return;
  Result<std::shared_ptr<SecretRing>> read = SecretRing::load(security_.file.path());
  if (!read.ok()) return warn_of_changed_file(troubles_, read.status(), now);
  security_.file.keep();
  (void)security_.secrets->replace(std::move(**read));
  (void)server_->end_revoked([this](int secret) {
    return security_.secrets->knows({secret, trust::Role::kObserve});
  });
}

void EmptyPublisher::serve(const net::ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    const double now = clock_.look();
    entries.assign({{stop.fd(), POLLIN, 0}});
    server_->add_entries(entries, now);
    clock_.poll(entries, server_->next_tick(now));
    look_for_new_secrets();
    if (entries[1].revents != 0 && context_.tls != nullptr) context_.tls->look_again();
    server_->step(std::span(entries).subspan(1), clock_.look());
  }
  server_->leave();
}

}  // namespace sparcl::replication
