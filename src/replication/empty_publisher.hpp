#pragma once
// Answers at a publisher's port as long as there is nothing to publish: whoever asks learns that,
// and does not wait for an answer.

#include <memory>
#include <string>

#include "src/net/run_clock.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/listener.hpp"
#include "src/replication/server.hpp"
#include "src/replication/service_security.hpp"

namespace sparcl::replication {

class EmptyPublisher {
 public:
  // listener stays the caller's; once this has ended another may take what comes there. security:
  // no other object has its secrets, which are read again when the file changes.
  static Result<std::unique_ptr<EmptyPublisher>> create(const Listener& listener,
                                                        const std::string& model_id,
                                                        double silence_s,
                                                        const ServerSecurity& security);
  ~EmptyPublisher() { (void)thread_.stop(); }
  EmptyPublisher(const EmptyPublisher&) = delete;
  EmptyPublisher& operator=(const EmptyPublisher&) = delete;

  // As a publisher's, of version 0.
  const std::string& status() const { return status_; }

 private:
  EmptyPublisher(const Listener& listener, const std::string& model_id, double silence_s,
                 const ServerSecurity& security);
  void serve(const net::ServiceThread::Stop& stop);
  void look_for_new_secrets();

  net::RunClock clock_;
  std::string status_;
  ServerSecurity security_;
  double looked_at_ = 0;
  RepeatedMessages troubles_;
  SessionContext context_;
  std::unique_ptr<Server> server_;
  net::ServiceThread thread_;  // last: it ends first
};

}  // namespace sparcl::replication
