#include "tools/sparcl/metrics_page.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <new>
#include <string_view>

#include "src/net/host_port.hpp"
#include "src/replication/listener.hpp"
#include "src/replication/service_security.hpp"
#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

constexpr std::size_t kMaxReaders = 64;         // heuristic; beyond it the oldest is closed
constexpr std::size_t kMaxRequestBytes = 8192;  // Prometheus asks in under 500
constexpr double kNoDescriptorSeconds = 0.1;    // until the next try, heuristic
constexpr double kReaderSeconds = 10;  // from connection to last byte: Prometheus' own timeout

std::string http(std::string_view status, std::string_view type, std::string_view body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), body);
}

std::string refusal(std::string_view status) {
  return http(status, "text/plain; charset=utf-8", fmt::format("{}\n", status));
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_whole(const std::string& request) {
  return has(request, "\r\n\r\n") || has(request, "\n\n");
}

}  // namespace

void MetricsPlace::check() const {
  if (is_insecure || !certificates_path.empty()) return;
  if (where.empty() || !replication::is_reachable(where)) return;
  throw CLI::ValidationError(
      "--metrics",
      fmt::format("other machines can reach {}, and the figures are sent in the clear: give a host "
                  "of this machine, such as 127.0.0.1, or --certificates FOLDER, or --insecure",
                  where));
}

Result<std::unique_ptr<MetricsPage>> MetricsPage::open(
    const MetricsPlace& place, std::function<std::vector<Metric>()> collect) {
  SPARCL_ASSIGN_OR_RETURN(const net::HostPort parsed, net::parse_host_port(place.where));
  net::TlsEndpointRef tls;
  if (!place.certificates_path.empty()) {
    SPARCL_ASSIGN_OR_RETURN(tls, replication::observers_server(place.certificates_path));
  }
  const bool may_be_far = place.is_insecure || tls != nullptr;
  Result<replication::Listener> listener = replication::Listener::open(
      place.where, may_be_far ? replication::Reach::kNetwork : replication::Reach::kThisMachine);
  if (!listener.ok()) {
    return Status(
        Code::kSystemError,
        fmt::format("--metrics {}: the port cannot be opened: another program may have it, or HOST "
                    "is not this machine: give another port, or 0 for any: {}",
                    place.where, listener.status().message()));
  }
  const std::string port = listener->address.substr(listener->address.rfind(':') + 1);
  const bool is_ipv6 = has(parsed.host, ":");
  const std::string host = parsed.host.empty() ? "localhost"
                           : is_ipv6           ? fmt::format("[{}]", parsed.host)
                                               : parsed.host;
  std::string address =
      fmt::format("{}://{}:{}/metrics", tls != nullptr ? "https" : "http", host, port);
  std::unique_ptr<MetricsPage> page(new MetricsPage(std::move(listener->socket), std::move(tls),
                                                    std::move(address), std::move(collect)));
  SPARCL_RETURN_IF_ERROR(page->thread_.start(
      "--metrics", [each = page.get()](const auto& stop) { each->serve(stop); }));
  return page;
}

void MetricsPage::serve(const net::ServiceThread::Stop& stop) {
  std::vector<pollfd> entries;
  while (!stop.is_asked()) {
    entries = {{stop.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
    for (const Reader& reader : readers_) {
      const bool writes = !reader.answer.empty() || reader.socket.wants_to_write();
      entries.push_back({reader.socket.fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    }
    (void)net::poll_until(
        entries, readers_.empty() ? net::monotonic_seconds() + 3600 : readers_.front().deadline);
    auto entry = entries.begin() + 2;
    const double now = net::monotonic_seconds();
    std::erase_if(readers_, [&](Reader& reader) {
      const bool is_ready = (entry++)->revents != 0;
      return (is_ready && is_through(reader)) || now >= reader.deadline;
    });
    if (entries[1].revents != 0 && tls_ != nullptr) tls_->look_again();
    if (entries[1].revents != 0 && !take_readers())
      (void)net::poll_until(std::span(entries).first(1), now + kNoDescriptorSeconds);
  }
}

// False: readers wait, but none can be accepted.
bool MetricsPage::take_readers() try {
  for (;;) {
    net::SocketAddress from;
    net::Socket socket(
        ::accept4(listener_.fd(), from.get(), &from.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR;
    send_at_once(socket);
    if (readers_.size() == kMaxReaders) readers_.pop_front();
    net::NetAddress host = net::from_socket_address(from.get()).value_or(net::NetAddress());
    host.port = 0;
    readers_.push_back({net::SecureSocket(std::move(socket), tls_),
                        to_text(host),
                        net::monotonic_seconds() + kReaderSeconds,
                        {},
                        {},
                        0});
    if (is_through(readers_.back())) readers_.pop_back();  // a request has usually come at once
  }
} catch (const std::bad_alloc&) {
  return false;
}

// True: the reader has its answer, or has left.
bool MetricsPage::is_through(Reader& reader) try {
  if (reader.answer.empty()) read_request(reader);
  while (reader.sent < reader.answer.size()) {
    const iovec rest{reader.answer.data() + reader.sent, reader.answer.size() - reader.sent};
    const net::Moved moved = reader.socket.write(std::span(&rest, 1));
    if (moved.kind == net::Moved::Kind::kWouldBlock) return false;
    if (moved.kind == net::Moved::Kind::kClosed) return true;
    reader.sent += moved.bytes;
  }
  if (reader.answer.empty()) return !reader.socket.is_open();
  return reader.socket.flush().kind == net::Moved::Kind::kClosed || !reader.socket.wants_to_write();
} catch (const std::bad_alloc&) {
  return true;
}

void MetricsPage::read_request(Reader& reader) {
  std::array<char, 1024> bytes;
  for (;;) {
    const net::Moved moved = reader.socket.read(std::as_writable_bytes(std::span(bytes)));
    if (moved.kind == net::Moved::Kind::kWouldBlock) return;
    if (moved.kind == net::Moved::Kind::kClosed) return end(reader);
    reader.request.append(bytes.data(), moved.bytes);
    if (is_whole(reader.request)) {
      reader.answer = answer_to(reader.request);
      return;
    }
    if (reader.request.size() > kMaxRequestBytes) {
      reader.answer = refusal("431 Request Header Fields Too Large");
      return;
    }
  }
}

void MetricsPage::end(Reader& reader) {
  const std::uint64_t times =
      reader.socket.is_refused() ? refused_.count(reader.from, net::monotonic_seconds()) : 0;
  if (times > 0) {
    print_warning(fmt::format("--metrics: {} is refused: {}{}", reader.from,
                              reader.socket.failure(), times_text(times)));
  }
  reader.socket.close();
}

std::string MetricsPage::answer_to(const std::string& request) const try {
  const std::string_view line = std::string_view(request).substr(0, request.find_first_of("\r\n"));
  const std::string_view method = line.substr(0, line.find(' '));
  if (method == line || !has(line, " HTTP/1.")) return refusal("400 Bad Request");
  if (method != "GET") return refusal("405 Method Not Allowed");
  const std::string_view target =
      line.substr(method.size() + 1, line.rfind(' ') - method.size() - 1);
  if (target.substr(0, target.find('?')) != "/metrics") return refusal("404 Not Found");
  return http("200 OK", "text/plain; version=0.0.4; charset=utf-8", exposition(collect_()));
} catch (const std::exception&) {  // no memory for it now
  return refusal("503 Service Unavailable");
}

}  // namespace sparcl::tool
