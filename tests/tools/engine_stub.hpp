#pragma once
// tests/tools/engine_stub.py as a process of a test.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "src/net/http/http_client.hpp"
#include "tests/support/tree.hpp"

namespace sparcl::test {

class EngineStub {
 public:
  // key: that its requests need; "": none.
  explicit EngineStub(const std::string& key = "") {
    ::setenv("no_proxy", "*", 1);
    int ends[2];
    if (::pipe(ends) != 0) return;
    const std::string stub = tree() / "tests/tools/engine_stub.py";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (!key.empty()) ::setenv("SPARCL_STUB_KEY", key.c_str(), 1);
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::execlp("python3", "python3", "-B", stub.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string port;
    for (char c = 0; port.size() < 16 && ::read(ends[0], &c, 1) == 1 && c != '\n';) port += c;
    ::close(ends[0]);
    url_ = "http://127.0.0.1:" + port;
    client_ = std::move(*net::HttpClient::open({}));
  }
  EngineStub(const EngineStub&) = delete;
  EngineStub& operator=(const EngineStub&) = delete;
  ~EngineStub() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }

  const std::string& url() const { return url_; }
  nlohmann::json state() const { return ask("GET", {}); }
  // The endpoints of the requests, since the beginning.
  std::vector<std::string> asked() const {
    std::vector<std::string> paths;
    const nlohmann::json now = state();
    for (const nlohmann::json& request : now["requests"]) paths.push_back(request[0]);
    return paths;
  }
  void hurt(const nlohmann::json& fault) const { (void)ask("PUT", fault.dump()); }

 private:
  nlohmann::json ask(const char* method, const std::string& body) const {
    net::HttpRequest request;
    request.method = method;
    request.url = url_ + "/_control";
    request.body = {std::as_bytes(std::span(body))};
    request.max_bytes = 1 << 20;
    request.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const Result<net::HttpAnswer> answer = client_->perform(request);
    if (!answer.ok()) return {};
    const auto* const text = reinterpret_cast<const char*>(answer->body.data());
    return nlohmann::json::parse(text, text + answer->body.size(), nullptr, false);
  }

  pid_t pid_ = -1;
  std::string url_;
  std::unique_ptr<net::HttpClient> client_;
};

}  // namespace sparcl::test
