#include <nanobind/stl/string.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "python/src/python_handles.hpp"

namespace sparcl::python {
namespace {

std::atomic<unsigned> came{0};  // SIGINTs
std::atomic<bool> is_ending{false};
pthread_t ending_thread{};
std::atomic<int> coming_back{0};  // threads that wait for the GIL

// The handler that was there before ours: Python's.
struct sigaction before {};

void on_interrupt(int signal, siginfo_t* info, void* context) {
  came.fetch_add(1, std::memory_order_relaxed);
  if ((before.sa_flags & SA_SIGINFO) != 0)
    before.sa_sigaction(signal, info, context);
  else
    before.sa_handler(signal);
}

// Aborts a communicator once Ctrl-C comes. The thread starts with the first call that is watched,
// and sleeps while there is none.
class InterruptWatch {
 public:
  void begin(sparclComm_t comm, unsigned seen) {
    const std::lock_guard lock(mutex_);
    if (!is_started_) std::thread([this] { run(); }).detach();
    is_started_ = true;
    comm_ = comm;
    seen_ = seen;
    if (is_asleep_) wake_.notify_one();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    comm_ = nullptr;
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      // Most calls are over before the first look: a watch that was on looks on for a while.
      if (comm_ == nullptr && ++idle_ > kIdleLooks) {
        is_asleep_ = true;
        wake_.wait(lock, [this] { return comm_ != nullptr; });
        is_asleep_ = false;
      }
      if (comm_ != nullptr) idle_ = 0;
      if (comm_ != nullptr && came.load() != seen_) {
        sparclCommAbort(comm_);
        comm_ = nullptr;
      }
      wake_.wait_for(lock, std::chrono::milliseconds(20));
    }
  }

  static constexpr int kIdleLooks = 50;
  std::mutex mutex_;
  std::condition_variable wake_;
  sparclComm_t comm_ = nullptr;
  unsigned seen_ = 0;
  int idle_ = 0;
  bool is_started_ = false, is_asleep_ = false;
};

// In a child of fork() the thread is not there: the child gets a watch of its own.
InterruptWatch* watch = nullptr;

void make_watch() { watch = new InterruptWatch; }

unsigned long main_thread = 0;

bool is_main_thread() {
  if (main_thread == 0) {
    const nb::object thread = nb::module_::import_("threading").attr("main_thread")();
    main_thread = nb::cast<unsigned long>(thread.attr("ident"));
  }
  return PyThread_get_thread_ident() == main_thread;
}

void begin_in_child() {
  make_watch();
  coming_back.store(0);
  main_thread = 0;
}

// Keeps a thread that came back too late.
void stay_if_ending() {
  coming_back.fetch_add(1);
  if (!is_ending.load() || ::pthread_equal(::pthread_self(), ending_thread)) return;
  coming_back.fetch_sub(1);
  for (;;) ::pause();
}

}  // namespace

ReleasedGil::~ReleasedGil() {
  stay_if_ending();
  PyEval_RestoreThread(thread_);
  coming_back.fetch_sub(1);
}

HeldGil::HeldGil() {
  stay_if_ending();
  state_ = PyGILState_Ensure();
  coming_back.fetch_sub(1);
}

void run_aside(std::function<sparclResult_t()> call, std::function<void()> undo) {
  struct Aside {
    std::mutex mutex;
    std::condition_variable ended;
    bool is_over = false, is_left = false;
    sparclResult_t result = sparclSuccess;
    std::string text;
  };
  const auto aside = std::make_shared<Aside>();
  std::thread([aside, call = std::move(call), undo = std::move(undo)] {
    const sparclResult_t result = call();
    std::string text = sparclGetLastError(nullptr);
    const std::lock_guard lock(aside->mutex);
    aside->result = result;
    aside->text = std::move(text);
    aside->is_over = true;
    if (aside->is_left && result == sparclSuccess) undo();
    aside->ended.notify_all();
  }).detach();
  for (bool is_over = false; !is_over;) {
    {
      const ReleasedGil released;
      std::unique_lock lock(aside->mutex);
      is_over = aside->ended.wait_for(lock, std::chrono::milliseconds(50),
                                      [&] { return aside->is_over; });
    }
    if (is_over || PyErr_CheckSignals() == 0) continue;
    const std::lock_guard lock(aside->mutex);
    aside->is_left = true;
    if (aside->is_over && aside->result == sparclSuccess) undo();
    throw nb::python_error();
  }
  if (aside->result != sparclSuccess)
    raise(aside->result,
          nb::steal(PyUnicode_DecodeUTF8(aside->text.data(),
                                         static_cast<Py_ssize_t>(aside->text.size()), "replace")));
}

void end_threads() {
  ending_thread = ::pthread_self();
  is_ending.store(true);
  PyThreadState* const thread = PyEval_SaveThread();
  for (int looks = 0; coming_back.load() > 0 && looks < 1000; ++looks) ::usleep(1000);
  PyEval_RestoreThread(thread);
}

unsigned interrupts() { return came.load(std::memory_order_relaxed); }

void watch_interrupts() {
  struct sigaction now {};
  if (sigaction(SIGINT, nullptr, &now) != 0) return;
  const bool is_ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_interrupt;
  const bool is_plain = (now.sa_flags & SA_SIGINFO) == 0;
  if (is_ours || (is_plain && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))) return;
  // Python's is always the same. Over another one, which may pass signals on to ours, nothing is
  // put.
  static const auto pythons = now.sa_handler;
  if (now.sa_handler != pythons) return;
  before = now;
  struct sigaction ours = now;
  ours.sa_sigaction = on_interrupt;
  ours.sa_flags |= SA_SIGINFO;
  sigaction(SIGINT, &ours, nullptr);
}

AbortOnInterrupt::AbortOnInterrupt(sparclComm_t comm)
    : is_watched_(is_main_thread()), seen_(interrupts()) {
  if (!is_watched_) return;
  static const int forked = pthread_atfork(nullptr, nullptr, begin_in_child);
  if (watch == nullptr || forked != 0) make_watch();
  watch_interrupts();
  seen_ = interrupts();
  if (PyErr_CheckSignals() != 0) throw nb::python_error();  // one that came before
  watch->begin(comm, seen_);
}

AbortOnInterrupt::~AbortOnInterrupt() {
  if (is_watched_) watch->end();
}

void AbortOnInterrupt::raise_if_interrupted() const {
  if (is_watched_ && interrupts() != seen_ && PyErr_CheckSignals() != 0) throw nb::python_error();
}

void raise(sparclResult_t result, const nb::object& text) {
  const nb::object failure =
      nb::module_::import_("sparcl._errors").attr("failure")(static_cast<int>(result), text);
  PyErr_SetObject(failure.type().ptr(), failure.ptr());
  throw nb::python_error();
}

void raise_type_error(const nb::object& text) {
  PyErr_SetObject(PyExc_TypeError, text.ptr());
  throw nb::python_error();
}

const char* c_text(const std::string& text) {
  if (text.find('\0') == std::string::npos) return text.c_str();
  const nb::gil_scoped_acquire held;
  const std::string shown =
      "'" + text.substr(0, text.find('\0')) + "\\0...' has a NUL, which ends a text: leave it out";
  raise(sparclInvalidArgument,
        nb::steal(
            PyUnicode_DecodeUTF8(shown.data(), static_cast<Py_ssize_t>(shown.size()), "replace")));
}

WaitWarning::WaitWarning() {
  const char* const text = std::getenv("SPARCL_WAIT_WARNING_S");
  char* end = nullptr;
  const double given = text == nullptr ? 30 : std::strtod(text, &end);
  next_ = text == nullptr || (end != text && *end == '\0') ? given : 30;
}

namespace {

// With the package's names.
nb::object in_python(const nb::object& text) {
  return nb::module_::import_("sparcl._words").attr("in_python")(text);
}

}  // namespace

void WaitWarning::look(double waited, sparclResult_t result) {
  if (!(next_ > 0) || waited < next_) return;
  next_ = 2 * waited;
  std::string text = "sparcl has waited for " + std::to_string(static_cast<long>(waited)) +
                     " s: " + nb::cast<std::string>(in_python(last_error(result)));
  for (const std::string piece : {" within 0.1 s", " after 0.1 s"}) {  // the time of one piece
    if (const std::size_t at = text.find(piece); at != std::string::npos)
      text.erase(at, piece.size());
  }
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw nb::python_error();
}

void check(sparclResult_t result, sparclComm_t comm) {
  if (result != sparclSuccess) raise(result, last_error(result, comm));
}

nb::object last_error(sparclResult_t result, sparclComm_t comm) {
  const char* text = sparclGetLastError(comm);
  if (*text == '\0') text = sparclGetErrorString(result);
  // Names in a text need not be UTF-8.
  return nb::steal(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strlen(text)), "replace"));
}

}  // namespace sparcl::python
