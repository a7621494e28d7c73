// A program that begins and ends MPI in one of several ways, and says what was wrong: one way a
// run, as MPI begins once.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "sparcl/sparcl_mpi.h"
#include "tests/support/mpi_end.hpp"

namespace {

constexpr int kSkipped = 77;
int wrong = 0;

void expect(bool is_right, const char* what) {
  if (is_right) return;
  ++wrong;
  std::fprintf(stderr, "wrong: %s; the last error is: %s\n", what, sparclGetLastError(nullptr));
}

bool is_refused(sparclResult_t result, std::string_view why) {
  return result == sparclInvalidUsage &&
         std::string_view(sparclGetLastError(nullptr)).find(why) != std::string_view::npos;
}

sparclResult_t broadcast(sparclComm_t comm, std::vector<float>& values) {
  return sparclBroadcastDelta(values.data(), nullptr, values.size(), sparclFloat32, 0, nullptr,
                              comm, nullptr);
}

void init(int level) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, level, &provided);
}

// --- after MPI_Finalize ---

int calls_after_finalize() {
  init(MPI_THREAD_FUNNELED);
  std::vector<float> values(1000, 1), more(100'000, 1);
  sparclComm_t comm = nullptr, waiting = nullptr, late = nullptr, survivors = nullptr;
  sparclRequest_t request = nullptr;
  expect(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr) == sparclSuccess, "a communicator");
  expect(sparclCommInitMpi(&waiting, MPI_COMM_WORLD, nullptr) == sparclSuccess, "another one");
  expect(broadcast(comm, values) == sparclSuccess, "a call before MPI_Finalize");
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1 ||
      !sparcl::test::runs_on_mpich())  // that of MPICH waits for messages that are not taken
    expect(sparclIBroadcastDelta(more.data(), nullptr, more.size(), sparclFloat32, 0, nullptr,
                                 waiting, nullptr, &request) == sparclSuccess,
           "a request");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();

  int count = 0, rank = -1, done = 0;
  sparclResult_t error = sparclSuccess;
  expect(is_refused(broadcast(comm, values), "MPI_Finalize"), "a blocking call");
  sparclRequest_t refused = nullptr;
  expect(is_refused(sparclIBroadcastDelta(more.data(), nullptr, more.size(), sparclFloat32, 0,
                                          nullptr, comm, nullptr, &refused),
                    "MPI_Finalize"),
         "a call that does not block");
  if (request != nullptr) {
    expect(is_refused(sparclTest(&request, &done, nullptr), "MPI_Finalize"), "sparclTest");
    expect(is_refused(sparclWait(&request, nullptr), "MPI_Finalize"), "sparclWait");
  }
  expect(is_refused(sparclCommShrink(comm, &survivors), "MPI_Finalize"), "sparclCommShrink");
  expect(sparclCommCount(comm, &count) == sparclSuccess && count == size, "sparclCommCount");
  expect(sparclCommUserRank(comm, &rank) == sparclSuccess && rank >= 0, "sparclCommUserRank");
  expect(sparclCommGetAsyncError(comm, &error) == sparclSuccess && error == sparclSystemError,
         "sparclCommGetAsyncError");  // it is poisoned
  expect(sparclCommAbort(waiting) == sparclSuccess, "sparclCommAbort");
  expect(is_refused(sparclCommInitMpi(&late, MPI_COMM_WORLD, nullptr), "MPI_Finalize"),
         "sparclCommInitMpi");
  expect(sparclCommDestroy(waiting) == sparclSuccess, "sparclCommDestroy with a request");
  if (request != nullptr)
    expect(sparclWait(&request, nullptr) != sparclSuccess && request == nullptr,
           "a request's outcome");
  expect(sparclCommDestroy(comm) == sparclSuccess, "sparclCommDestroy");
  return wrong;
}

int calls_before_init() {
  sparclComm_t comm = nullptr;
  expect(is_refused(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr), "MPI_Init"),
         "sparclCommInitMpi before MPI_Init");
  return wrong;
}

// --- threads ---

int calls_of_threads(int level) {
  init(level);
  int provided = 0, rank = 0, size = 0;
  MPI_Query_thread(&provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool may = provided >= MPI_THREAD_SERIALIZED;
  std::vector<float> values(1000, 1);
  sparclComm_t comm = nullptr, other = nullptr;
  expect(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr) == sparclSuccess,
         "a communicator of the main thread");
  expect(broadcast(comm, values) == sparclSuccess, "a call of the main thread");
  std::thread([&] {
    const sparclResult_t called = broadcast(comm, values);
    expect(may ? called == sparclSuccess : is_refused(called, "MPI_THREAD_SERIALIZED"),
           "a call of another thread");
    sparclResult_t error = sparclSuccess;
    expect(sparclCommGetAsyncError(comm, &error) == sparclSuccess && error == sparclSuccess,
           "a question of another thread");
    if (!may)
      expect(is_refused(sparclCommDestroy(comm), "MPI_THREAD_SERIALIZED"),
             "the end by another thread");
  }).join();
  expect(broadcast(comm, values) == sparclSuccess, "a call of the main thread after it");
  // One rank alone calls from another thread: all are told.
  sparclResult_t made = sparclSuccess;
  std::string text;
  const auto make = [&] {
    made = sparclCommInitMpi(&other, MPI_COMM_WORLD, nullptr);
    text = sparclGetLastError(nullptr);
  };
  rank == size - 1 ? std::thread(make).join() : make();
  expect(
      may ? made == sparclSuccess
          : made == sparclInvalidUsage && text.find("MPI_THREAD_SERIALIZED") != std::string::npos,
      "sparclCommInitMpi by another thread of the last rank");
  if (may) expect(sparclCommDestroy(other) == sparclSuccess, "sparclCommDestroy");
  expect(sparclCommDestroy(comm) == sparclSuccess, "sparclCommDestroy");
  return sparcl::test::end_mpi(wrong);
}

// --- a rank that does not come ---

// What the process says on standard error meanwhile.
template <class Call>
std::string said_in(Call&& call) {
  std::FILE* const file = std::tmpfile();
  const int own = dup(STDERR_FILENO);
  dup2(fileno(file), STDERR_FILENO);
  call();
  dup2(own, STDERR_FILENO);
  std::string text(4096, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

int call_that_one_rank_does_not_make() {
  setenv("SPARCL_TIMEOUT_S", "1", 1);
  setenv("SPARCL_WAIT_WARNING_S", "0.2", 1);
  init(MPI_THREAD_FUNNELED);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return kSkipped;
  MPI_Comm deserted = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &deserted);
  if (rank != size - 1) {
    sparclComm_t comm = nullptr;
    sparclResult_t made = sparclSuccess;
    const std::string said = said_in([&] { made = sparclCommInitMpi(&comm, deserted, nullptr); });
    expect(made == sparclTimeout && comm == nullptr, "sparclCommInitMpi without the last rank");
    expect(std::strstr(sparclGetLastError(nullptr), "has not made this call within 1 s") != nullptr,
           "its text");
    expect(said.find("s in sparclCommInitMpi: at least one of the " + std::to_string(size) +
                     " ranks") != std::string::npos,
           "a warning before");
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return sparcl::test::end_mpi(wrong);
}

// --- sessions ---

int calls_in_a_session() {
#ifdef MPI_SESSION_NULL
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm world = MPI_COMM_NULL;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  sparclComm_t comm = nullptr;
  expect(is_refused(sparclCommInitMpi(&comm, MPI_COMM_WORLD, nullptr), "MPI_Init"),
         "MPI_COMM_WORLD, which a session has not");
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "sparcl.test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
  expect(sparclCommInitMpi(&comm, world, nullptr) == sparclSuccess, "a communicator of a session");
  std::vector<float> values(100'000, 0);
  int rank = 0;
  MPI_Comm_rank(world, &rank);
  if (rank == 0) values.assign(values.size(), 3);
  expect(broadcast(comm, values) == sparclSuccess && values.back() == 3, "a call in a session");
  expect(sparclCommDestroy(comm) == sparclSuccess, "sparclCommDestroy");
  std::fflush(nullptr);
  MPI_Barrier(world);
  _exit(wrong != 0);  // MPICH's ends may wait for ever (tests/support/mpi_end.hpp)
#else
  std::puts("skipped: this MPI has no sessions");
  return kSkipped;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  int failures = 1;
  if (way == "finalize") failures = calls_after_finalize();
  if (way == "no_init") failures = calls_before_init();
  if (way == "single") failures = calls_of_threads(MPI_THREAD_SINGLE);
  if (way == "funneled") failures = calls_of_threads(MPI_THREAD_FUNNELED);
  if (way == "multiple") failures = calls_of_threads(MPI_THREAD_MULTIPLE);
  if (way == "deserted") failures = call_that_one_rank_does_not_make();
  if (way == "session") failures = calls_in_a_session();
  return failures == kSkipped ? kSkipped : failures != 0;
}
