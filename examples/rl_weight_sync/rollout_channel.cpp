#include "rollout_channel.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace training {
namespace {

constexpr std::size_t kMaxTokens = 64 * 1024;
static_assert(std::is_trivially_copyable_v<RolloutMessage::Head>);

}  // namespace

RolloutChannel::~RolloutChannel() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

RolloutChannel::RolloutChannel(RolloutChannel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), is_over_(other.is_over_) {}

RolloutChannel& RolloutChannel::operator=(RolloutChannel&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(is_over_, other.is_over_);
  return *this;
}

bool RolloutChannel::send(const RolloutMessage& message) const {
  RolloutMessage::Head head = message.head;
  head.token_count = static_cast<std::uint32_t>(message.tokens.size());
  std::vector<char> bytes(sizeof head + message.tokens.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  if (!message.tokens.empty())
    std::memcpy(bytes.data() + sizeof head, message.tokens.data(), message.tokens.size());
  return ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

std::optional<RolloutMessage> RolloutChannel::receive() {
  std::vector<char> bytes(sizeof(RolloutMessage::Head) + kMaxTokens);
  const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (count <= 0) {
    is_over_ = true;
    return {};
  }
  RolloutMessage message;
  const auto size = static_cast<std::size_t>(count);
  if (size >= sizeof message.head) std::memcpy(&message.head, bytes.data(), sizeof message.head);
  if (size < sizeof message.head || size - sizeof message.head != message.head.token_count) {
    throw std::runtime_error("a worker's message of " + std::to_string(size) + " bytes is none");
  }
  message.tokens.assign(bytes.begin() + sizeof message.head, bytes.begin() + count);
  return message;
}

void RolloutChannel::wait(int milliseconds) const {
  pollfd entry{descriptor_, POLLIN, 0};
  (void)::poll(&entry, 1, milliseconds);
}

void RolloutChannel::say_no_more() const { (void)::shutdown(descriptor_, SHUT_WR); }

ChannelPair make_channel_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(std::string("socketpair: ") + std::strerror(errno));
  }
  return {RolloutChannel(ends[0]), RolloutChannel(ends[1])};
}

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace training
