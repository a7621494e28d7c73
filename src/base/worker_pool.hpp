#pragma once
// Threads that share a piece of work and wait for the next one.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/status.hpp"

namespace sparcl {

constexpr int kMaxThreads = 1024;

// The setting THREADS: 0 if it is left to the program.
Result<unsigned> threads_setting();

// Cores that this process may run on, by its affinity; at least 1.
unsigned allowed_cores();

class WorkerPool {
 public:
  // `threads` threads, the caller's own among them: 1 starts none. 0: allowed_cores(). If the
  // system gives fewer, there are fewer.
  explicit WorkerPool(unsigned threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  unsigned size() const { return static_cast<unsigned>(threads_.size()) + 1; }

  // Calls work(i) for all i < count <= size(), each in a thread of its own, work(0) in this one.
  // Returns when all are done. From one thread at a time; work() does not throw.
  void run(unsigned count, const std::function<void(unsigned)>& work);

 private:
  void serve(unsigned number);

  std::vector<std::thread> threads_;  // thread i does work(i + 1)
  std::mutex mutex_;
  std::condition_variable begun_;
  std::condition_variable done_;
  const std::function<void(unsigned)>* work_ = nullptr;
  unsigned count_ = 0;
  std::atomic<std::uint64_t> round_ =
      0;  // changed under the mutex; threads that wait for a moment read it without
  std::atomic<unsigned> left_ = 0;
  std::atomic<bool> ends_ = false;
};

}  // namespace sparcl
