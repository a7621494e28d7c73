#pragma once
// A page of figures for Prometheus at http://HOST:PORT/metrics. One thread serves all readers; no
// reader can delay another.

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/listener.hpp"
#include "tools/sparcl/metrics.hpp"

namespace sparcl::tool {

// A usage error if other machines can reach `where` ("": no page): the page is sent in the clear.
void check_metrics_reach(const std::string& where);

inline replication::Reach reach_of_metrics(bool is_insecure) {
  return is_insecure ? replication::Reach::kNetwork : replication::Reach::kThisMachine;
}

class MetricsPage {
 public:
  // where: HOST:PORT; without a host on all interfaces. collect: called by the page's own thread,
  // until the page is destroyed. SystemError: the port is not available.
  static Result<std::unique_ptr<MetricsPage>> open(const std::string& where,
                                                   replication::Reach reach,
                                                   std::function<std::vector<Metric>()> collect);

  const std::string& address() const { return address_; }  // "http://HOST:PORT/metrics"

 private:
  struct Reader {
    net::Socket socket;
    double deadline = 0;
    std::string request;  // the bytes that have come
    std::string answer;   // empty: the request is incomplete
    std::size_t sent = 0;
  };

  MetricsPage(net::Socket listener, std::string address,
              std::function<std::vector<Metric>()> collect)
      : listener_(std::move(listener)),
        address_(std::move(address)),
        collect_(std::move(collect)) {}
  void serve(const net::ServiceThread::Stop& stop);
  bool take_readers();
  bool is_through(Reader& reader);
  void read_request(Reader& reader);
  std::string answer_to(const std::string& request) const;

  net::Socket listener_;
  std::string address_;
  std::function<std::vector<Metric>()> collect_;
  std::list<Reader> readers_;  // the oldest first
  net::ServiceThread thread_;  // uses all of the above: it ends first
};

}  // namespace sparcl::tool
