#pragma once
// A file that all publishers of a model use, on any host: it witnesses which of them is the last.
// Each takes the next term there, a number that only rises, and publishes in it. A publisher that
// was paused or cut off, and comes back after another one has taken over, finds a later term there,
// and publishes nothing more. No clock is asked.
//
// A file system that hangs delays its callers for a bounded time: each look at the file has a
// thread of its own (net::BoundedCall).

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/base/status.hpp"
#include "src/net/bounded_call.hpp"

namespace sparcl::replication {

class Witness {
 public:
  static constexpr double kPatience = 10;  // seconds for a look at the file; heuristic

  // Takes the next term for `holder` ("host h1, pid 4711"). The file is made if it is not there. A
  // lock beside it (PATH.lock, flock(2)) keeps others away for a moment. Timeout: a process holds
  // the lock for too long, or the file system does not answer.
  static Result<std::unique_ptr<Witness>> take(const std::string& path, const std::string& holder,
                                               double patience_s = kPatience);

  std::uint64_t term() const;
  // Takes `term`, which replicas have made necessary, unless a later one was taken already.
  // Timeout: another process has the lock now, try again; or as check().
  Status raise(std::uint64_t term);
  // From any thread. InvalidUsage: another publisher has taken a later term. SystemError, Corrupt:
  // the file does not tell. Timeout: the file system does not answer.
  Status check();
  // The same as check() and then raise(), beside the caller, which calls it again and again:
  // nothing, until the result is there. For one thread.
  std::optional<Status> look(std::uint64_t term, double now);
  bool is_looking() const { return look_.is_under_way(); }

 private:
  class File;
  Witness(std::shared_ptr<File> file, double patience_s)
      : file_(std::move(file)), patience_s_(patience_s) {}
  Status call(std::function<Status()> what);
  Status silent() const;

  std::shared_ptr<File> file_;  // also of calls that hang
  double patience_s_;
  std::mutex calling_;     // one call() at a time
  net::BoundedCall call_;  // guarded by calling_
  net::BoundedCall look_;
  double looks_since_ = 0;
};

}  // namespace sparcl::replication
