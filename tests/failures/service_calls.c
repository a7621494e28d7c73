// A publisher and a subscriber in one process, and a look at their status by another. Run with
// failing_calls.c preloaded.
//
//   service_calls [SPARCL]      the program that asks for the status
//
// Exit codes as library_calls.c has them; 7: the subscriber holds no version although one was
// published, and nothing failed any more.
#include <sparcl/sparcl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { COUNT = 20000, TRIES = 12 };

static float published[COUNT], held[COUNT];
static int worst;  // exit code

static void found(int code) {
  if (code > worst) worst = code;
}

static int ok(sparclResult_t result, const char* call) {
  if (result == sparclSuccess) return 1;
  const char* const text = sparclGetLastError(NULL);
  const int is_said = text != NULL && *text != '\0';
  fprintf(stderr, "%s: %s: %s\n", call, sparclGetErrorString(result), is_said ? text : "(no text)");
  found(is_said ? 1 : 8);
  return 0;
}

static void fill(float* array, uint64_t version) {
  for (size_t i = 0; i < COUNT; ++i) array[i] = (float)(i % 100 == 0 ? version : 7);
}

static void nap(double seconds) {
  const struct timespec time = {0, (long)(seconds * 1e9)};
  nanosleep(&time, NULL);
}

static sparclState_t make_state(float* array) {
  const uint64_t shape[1] = {COUNT};
  sparclState_t state = NULL;
  if (!ok(sparclStateCreate(&state), "StateCreate")) return NULL;
  if (ok(sparclStateAdd(state, "w", array, sparclFloat32, 1, shape), "StateAdd")) return state;
  sparclStateDestroy(state);
  return NULL;
}

static void ask_for_status(const char* program, char* address) {
  char* const arguments[] = {(char*)program, "status", "--json", address, NULL};
  char* const environment[] = {NULL};
  pid_t child = 0;
  int status = 0;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
  if (posix_spawn(&child, program, &quiet, NULL, arguments, environment) != 0) return;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) found(9);
}

// Until the subscriber has come to `version`. A try that fails leaves the tensors as they were.
static int follow(sparclSubscriber_t subscriber, uint64_t version, uint64_t* reached) {
  static float expected[COUNT];
  for (int i = 0; i < TRIES && *reached < version; ++i) {
    uint64_t got = 0;
    const int has_come = ok(sparclSubscriberNext(subscriber, 0.5, &got), "SubscriberNext");
    if (has_come) *reached = got;
    if (!has_come && *reached == 0) continue;
    fill(expected, *reached);
    if (memcmp(held, expected, sizeof expected) != 0) {
      fprintf(stderr, "the tensors are not version %d\n", (int)*reached);
      found(9);
    }
    if (!has_come) nap(0.01);
  }
  return *reached >= version;
}

static uint64_t publish(sparclPublisher_t publisher, uint64_t version) {
  for (int i = 0; i < 2; ++i) {
    fill(published, version);
    if (ok(sparclPublish(publisher, version), "Publish")) return version;
  }
  return 0;
}

static void serve(sparclPublisher_t publisher, sparclState_t copy, const char* program) {
  char address[256];
  sparclSubscriber_t subscriber = NULL;
  uint64_t reached = 0, newest = 0;
  int connected = 0, holding = 0;
  sparclReport_t report = SPARCL_REPORT_INITIALIZER;
  if (!ok(sparclPublisherAddress(publisher, address, sizeof address), "PublisherAddress")) return;
  if (!ok(sparclSubscriberCreate(&subscriber, copy, address, NULL), "SubscriberCreate")) return;
  for (uint64_t version = 1; version <= 3; ++version) {
    const uint64_t made = publish(publisher, version);
    if (made != 0) newest = made;
    follow(subscriber, newest, &reached);
    if (version == 2 && program != NULL) ask_for_status(program, address);
  }
  ok(sparclPublisherCount(publisher, newest, &connected, &holding), "PublisherCount");
  ok(sparclPublisherWait(publisher, newest, 1, 2), "PublisherWait");
  ok(sparclPublisherLastReport(publisher, &report), "PublisherLastReport");
  if (reached < newest && worst < 7) {
    fprintf(stderr, "version %d was published, %d is held\n", (int)newest, (int)reached);
    found(getenv("SPARCL_TEST_FAIL_ALWAYS") != NULL && *getenv("SPARCL_TEST_FAIL_ALWAYS") == '1'
              ? 1
              : 7);
  }
  ok(sparclSubscriberDestroy(subscriber), "SubscriberDestroy");
}

int main(int argc, char** argv) {
  sparclState_t state = make_state(published), copy = make_state(held);
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = "127.0.0.1:0";
  sparclPublisher_t publisher = NULL;
  if (state != NULL && copy != NULL &&
      ok(sparclPublisherCreate(&publisher, state, &options), "PublisherCreate")) {
    serve(publisher, copy, argc > 1 ? argv[1] : NULL);
    ok(sparclPublisherDestroy(publisher), "PublisherDestroy");
  }
  if (copy != NULL) ok(sparclStateDestroy(copy), "StateDestroy");
  if (state != NULL) ok(sparclStateDestroy(state), "StateDestroy");
  return worst;
}
