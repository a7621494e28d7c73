#pragma once
// A page of figures for Prometheus at http://HOST:PORT/metrics, or at https://. One thread serves
// all readers; no reader can delay another.

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/repeated_messages.hpp"
#include "src/base/status.hpp"
#include "src/net/secure_socket.hpp"
#include "src/net/service_thread.hpp"
#include "src/replication/listener.hpp"
#include "tools/sparcl/metrics.hpp"

namespace sparcl::tool {

// Where a page is, and who may read it.
struct MetricsPlace {
  std::string where{};              // HOST:PORT; without a host on all interfaces. "": no page
  std::string certificates_path{};  // HTTPS, for readers with a certificate of a role; "": HTTP
  bool is_insecure = false;         // other machines may read it in the clear

  // A usage error if other machines can read the page in the clear, and that was not asked for.
  void check() const;
};

class MetricsPage {
 public:
  // collect: called by the page's own thread, until the page is destroyed. SystemError: the port is
  // not available.
  static Result<std::unique_ptr<MetricsPage>> open(const MetricsPlace& place,
                                                   std::function<std::vector<Metric>()> collect);

  const std::string& address() const { return address_; }  // "https://HOST:PORT/metrics"

 private:
  struct Reader {
    net::SecureSocket socket;
    std::string from;  // its address
    double deadline = 0;
    std::string request;  // the bytes that have come
    std::string answer;   // empty: the request is incomplete
    std::size_t sent = 0;
  };

  MetricsPage(net::Socket listener, net::TlsEndpointRef tls, std::string address,
              std::function<std::vector<Metric>()> collect)
      : listener_(std::move(listener)),
        tls_(std::move(tls)),
        address_(std::move(address)),
        collect_(std::move(collect)) {}
  void serve(const net::ServiceThread::Stop& stop);
  bool take_readers();
  bool is_through(Reader& reader);
  void read_request(Reader& reader);
  void end(Reader& reader);
  std::string answer_to(const std::string& request) const;

  net::Socket listener_;
  net::TlsEndpointRef tls_;  // nullptr: HTTP
  std::string address_;
  std::function<std::vector<Metric>()> collect_;
  std::list<Reader> readers_;  // the oldest first
  RepeatedMessages refused_;
  net::ServiceThread thread_;  // uses all of the above: it ends first
};

}  // namespace sparcl::tool
