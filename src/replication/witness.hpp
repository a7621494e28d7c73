#pragma once
// A file that all publishers of a model use, on any host: it witnesses which of them is the last.
// Each takes the next term there, a number that only rises, and publishes in it. A publisher that
// was paused or cut off, and comes back after another one has taken over, finds a later term there,
// and publishes nothing more. No clock is asked.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "src/base/status.hpp"

namespace sparcl::replication {

class Witness {
 public:
  // Takes the next term for `holder` ("host h1, pid 4711"). The file is made if it is not there. A
  // lock beside it (PATH.lock, flock(2)) keeps others away for a moment; Timeout: a process holds
  // it for too long.
  static Result<std::unique_ptr<Witness>> take(const std::string& path, const std::string& holder);

  std::uint64_t term() const { return term_; }
  // Takes `term`, which replicas have made necessary, unless a later one was taken already.
  // Timeout: another process has the lock now; try again.
  Status raise(std::uint64_t term);
  // From any thread. InvalidUsage: another publisher has taken a later term. SystemError, Corrupt:
  // the file does not tell.
  Status check() const;

 private:
  Witness(std::string path, std::string holder, std::string token)
      : path_(std::move(path)), holder_(std::move(holder)), token_(std::move(token)) {}
  Status write(std::uint64_t term);

  std::string path_;
  std::string holder_;
  std::string token_;  // random: two publishers of one process have one name
  std::atomic<std::uint64_t> term_{0};
};

}  // namespace sparcl::replication
