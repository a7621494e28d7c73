#include "src/transport/signal_dispositions.hpp"

namespace sparcl::transport {
namespace {

// The flags tell which member of the union is in use.
bool is_same_action(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_flags == b.sa_flags &&
         ((a.sa_flags & SA_SIGINFO) != 0 ? a.sa_sigaction == b.sa_sigaction
                                         : a.sa_handler == b.sa_handler);
}

}  // namespace

SignalDispositions::SignalDispositions() {
  for (int number = 1; number < NSIG; ++number)
    (void)::sigaction(number, nullptr, &actions_[static_cast<std::size_t>(number)]);
}

void SignalDispositions::give_back() const {
  for (int number = 1; number < NSIG; ++number) {
    const struct sigaction& before = actions_[static_cast<std::size_t>(number)];
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && !is_same_action(before, now))
      (void)::sigaction(number, &before, nullptr);
  }
}

}  // namespace sparcl::transport
