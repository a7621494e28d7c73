#pragma once
// tests/store/s3_stub.py as a process of this test program, and addresses of stores for tests that
// run over any store. SPARCL_TEST_STORE=s3 in the environment has them run over S3:
// SPARCL_TEST_S3_ENDPOINT then names another server, which takes the keys of AWS_*, and
// SPARCL_TEST_S3_BUCKET a bucket there; SPARCL_TEST_S3_IGNORES: it ignores conditions.

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "tests/support/tree.hpp"

namespace sparcl::test {

enum class StoreBody { kDirectory, kS3, kS3WithoutConditions };

inline std::string name_of(StoreBody body) {
  if (body == StoreBody::kDirectory) return "Directory";
  return body == StoreBody::kS3 ? "S3" : "S3WithoutConditions";
}

inline bool is_over_s3() {
  const char* const store = std::getenv("SPARCL_TEST_STORE");
  return store != nullptr && std::strcmp(store, "s3") == 0;
}

// How much longer other servers take than the stub.
inline unsigned slowness_of_server() {
  return std::getenv("SPARCL_TEST_S3_ENDPOINT") == nullptr ? 1 : 10;
}

inline std::vector<StoreBody> store_bodies() {
  if (!is_over_s3()) return {StoreBody::kDirectory};
  if (std::getenv("SPARCL_TEST_S3_ENDPOINT") == nullptr)
    return {StoreBody::kS3, StoreBody::kS3WithoutConditions};
  return std::getenv("SPARCL_TEST_S3_IGNORES") == nullptr
             ? std::vector{StoreBody::kS3}
             : std::vector{StoreBody::kS3WithoutConditions};
}

class S3Stub {
 public:
  // Started with the first call; it ends with this process.
  static const S3Stub& get() {
    static const S3Stub stub;
    return stub;
  }
  explicit S3Stub(const std::string& certificates = "") { start(certificates); }
  S3Stub(const S3Stub&) = delete;
  S3Stub& operator=(const S3Stub&) = delete;
  ~S3Stub() {
    if (pid_ <= 0 || owner_ != ::getpid()) return;
    ::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  // "": it could not be started.
  const std::string& endpoint() const { return endpoint_; }

  // The variables that a store of this stub is opened with.
  static void set_environment(const std::string& endpoint) {
    for (const char* name : {"AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION",
                             "AWS_ENDPOINT_URL", "AWS_CA_BUNDLE", "AWS_REGION"})
      ::unsetenv(name);
    ::setenv("AWS_ACCESS_KEY_ID", "test-key", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "test/secret+key", 1);
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent/credentials", 1);
    ::setenv("AWS_CONFIG_FILE", "/nonexistent/config", 1);
    ::setenv("AWS_ENDPOINT_URL_S3", endpoint.c_str(), 1);
    ::setenv("no_proxy", "*", 1);
  }

 private:
  void start(const std::string& certificates) {
    if (const char* const other = std::getenv("SPARCL_TEST_S3_ENDPOINT")) {
      endpoint_ = other;
      return;
    }
    int ends[2];
    if (::pipe(ends) != 0) return;
    const std::string stub = tree() / "tests/store/s3_stub.py";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::execlp("python3", "python3", "-B", stub.c_str(),
               certificates.empty() ? nullptr : certificates.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    for (char c = 0; text.size() < 16 && ::read(ends[0], &c, 1) == 1 && c != '\n';) text += c;
    ::close(ends[0]);
    if (text.empty()) return;
    endpoint_ = (certificates.empty() ? "http://127.0.0.1:" : "https://127.0.0.1:") + text;
    set_environment(endpoint_);
  }
  const pid_t owner_ = ::getpid();
  pid_t pid_ = -1;
  std::string endpoint_;
};

// The address of an empty store. folder: of a test alone.
inline std::string store_url(StoreBody body, const std::string& folder) {
  if (body == StoreBody::kDirectory) return "file:" + folder;
  (void)S3Stub::get();
  static std::atomic<int> count = 0;
  const char* bucket = std::getenv("SPARCL_TEST_S3_BUCKET");
  if (bucket == nullptr) bucket = body == StoreBody::kS3 ? "honours" : "ignores";
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::string("s3://") + bucket + "/a test=" + std::to_string(now.tv_sec) + "-" +
         std::to_string(now.tv_nsec) + "/" + std::to_string(::getpid()) + "-" +
         std::to_string(count.fetch_add(1));
}

}  // namespace sparcl::test
