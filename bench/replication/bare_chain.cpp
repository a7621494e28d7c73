#include "bench/replication/bare_chain.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace sparcl::bench {
namespace {

constexpr std::size_t kPart = std::size_t{256} << 10;
constexpr int kConnectTries = 2000;  // of 10 ms: the others are being started

[[noreturn]] void fail(const char* what) {
  fmt::print(stderr, "bare chain: {}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in address_of(const std::string& text) {
  const std::size_t colon = text.find(':');
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::uint16_t port = 0;
  if (colon != std::string::npos)
    (void)std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  address.sin_port = htons(port);
  if (colon == std::string::npos ||
      inet_pton(AF_INET, text.substr(0, colon).c_str(), &address.sin_addr) != 1)
    fail(text.c_str());
  return address;
}

int connect_to(const std::string& text) {
  const sockaddr_in address = address_of(text);
  for (int i = 0; i < kConnectTries; ++i) {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      const int on = 1;
      (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return fd;
    }
    ::close(fd);
    usleep(10'000);
  }
  fail(text.c_str());
}

int accept_at(const std::string& text) {
  const sockaddr_in address = address_of(text);
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  (void)::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener, 1) != 0) {
    fail(text.c_str());
  }
  const int fd = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  if (fd < 0) fail("accept");
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void send_all(int fd, const char* from, std::size_t count) {
  while (count > 0) {
    const ssize_t sent = ::send(fd, from, count, MSG_NOSIGNAL);
    if (sent <= 0) fail("send");
    from += sent;
    count -= static_cast<std::size_t>(sent);
  }
}

}  // namespace

std::vector<double> send_down_bare_chain(const std::string& first, std::uint64_t bytes,
                                         int rounds) {
  const int fd = connect_to(first);
  const std::vector<char> data(bytes, 'x');
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    send_all(fd, data.data(), data.size());
    char word = 0;
    if (::recv(fd, &word, 1, 0) != 1) fail("the last one's word");
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  ::close(fd);
  return times;
}

void pass_on_in_bare_chain(const std::string& listen, const std::string& next,
                           std::uint64_t bytes) {
  const int below = next.empty() ? -1 : connect_to(next);
  const int above = accept_at(listen);
  std::vector<char> part(kPart);
  for (;;) {
    for (std::uint64_t left = bytes; left > 0;) {
      const ssize_t came =
          ::recv(above, part.data(), std::min<std::uint64_t>(part.size(), left), 0);
      if (came <= 0) {
        if (below >= 0) ::close(below);
        ::close(above);
        return;
      }
      if (below >= 0) send_all(below, part.data(), static_cast<std::size_t>(came));
      left -= static_cast<std::uint64_t>(came);
    }
    char word = 'k';
    if (below >= 0 && ::recv(below, &word, 1, 0) != 1) fail("the next one's word");
    send_all(above, &word, 1);
  }
}

}  // namespace sparcl::bench
