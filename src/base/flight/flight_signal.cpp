#include "src/base/flight/flight_signal.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>

#include "src/base/error_text.hpp"
#include "src/base/flight/flight_dump.hpp"
#include "src/base/log.hpp"
#include "src/base/settings.hpp"

namespace sparcl::flight {
namespace {

struct SignalName {
  std::string_view name;
  int number;
};
constexpr std::array kSignals{SignalName{"HUP", SIGHUP}, SignalName{"QUIT", SIGQUIT},
                              SignalName{"USR1", SIGUSR1}, SignalName{"USR2", SIGUSR2}};

int handled = 0;  // written before the handler is installed
struct sigaction previous;

void on_signal(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  dump(STDERR_FILENO);
  errno = saved;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(number, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(number);
  }
}

int wanted_signal() {
  const Result<std::string> name = setting_choice("FLIGHT_SIGNAL");
  if (!name.ok()) return 0;
  for (const SignalName& each : kSignals) {
    if (each.name == *name) return each.number;
  }
  return 0;  // none
}

}  // namespace

void install_dump_handler() {
  const int number = wanted_signal();
  if (number == 0 || ::sigaction(number, nullptr, &previous) != 0) return;
  struct sigaction ours;
  std::memset(&ours, 0, sizeof ours);
  // With the previous handler's mask and stack. A dump alone interrupts no system call.
  ours.sa_flags = (previous.sa_flags & ~SA_RESETHAND) | SA_SIGINFO | SA_ONSTACK;
  ours.sa_mask = previous.sa_mask;
  if ((previous.sa_flags & SA_SIGINFO) == 0 &&
      (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN))
    ours.sa_flags |= SA_RESTART;
  ours.sa_sigaction = on_signal;
  handled = number;
  if (::sigaction(number, &ours, nullptr) != 0) {
    log_warn("SPARCL_FLIGHT_SIGNAL: the handler could not be set: {}", error_text(errno));
    handled = 0;
  }
}

void remove_dump_handler() {
  struct sigaction current;
  if (handled == 0 || ::sigaction(handled, nullptr, &current) != 0) return;
  if ((current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_signal)
    ::sigaction(handled, &previous, nullptr);
}

}  // namespace sparcl::flight
