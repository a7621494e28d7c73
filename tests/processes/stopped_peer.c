/* A stopped peer is named by heartbeats while sparclWaitAll waits for requests of two
 * communicators. The program starts itself as rank 1, which stops once it has joined. */
#define _GNU_SOURCE
#include <signal.h>
#include <sparcl/sparcl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kComms = 2, kHexBytes = 2 * sizeof(sparclUniqueId) + 1 };

static void fail(const char* what) {
  fprintf(stderr, "stopped_peer: %s: %s\n", what, sparclGetLastError(NULL));
  exit(1);
}

static void to_hex(const sparclUniqueId* id, char* text) {
  size_t i;
  for (i = 0; i < sizeof *id; ++i) sprintf(text + 2 * i, "%02x", (unsigned char)id->internal[i]);
}

static void from_hex(const char* text, sparclUniqueId* id) {
  size_t i;
  unsigned byte = 0;
  for (i = 0; i < sizeof *id; ++i) {
    if (sscanf(text + 2 * i, "%2x", &byte) != 1) fail("an id is damaged");
    id->internal[i] = (char)byte;
  }
}

static void join(sparclComm_t* comms, const sparclUniqueId* ids, int rank) {
  sparclConfig_t config = SPARCL_CONFIG_INITIALIZER;
  int i;
  config.liveness_s = 1;
  config.timeout_s = 60;
  for (i = 0; i < kComms; ++i) {
    if (sparclCommInitRank(&comms[i], 2, ids[i], rank, &config) != sparclSuccess) fail("join");
  }
}

static void join_and_stop(char** texts) {
  sparclUniqueId ids[kComms];
  sparclComm_t comms[kComms];
  int i;
  for (i = 0; i < kComms; ++i) from_hex(texts[i], &ids[i]);
  join(comms, ids, 1);
  raise(SIGSTOP);
}

int main(int argc, char** argv) {
  sparclUniqueId ids[kComms];
  sparclComm_t comms[kComms];
  sparclRequest_t requests[kComms] = {NULL, NULL};
  char texts[kComms][kHexBytes];
  float weights[kComms][4] = {{0}};
  sparclResult_t result;
  int i, status = 0;
  pid_t peer;
  if (argc == 1 + kComms) {
    join_and_stop(argv + 1);
    return 0;
  }
  for (i = 0; i < kComms; ++i) {
    if (sparclGetUniqueId(&ids[i]) != sparclSuccess) fail("an id");
    to_hex(&ids[i], texts[i]);
  }
  peer = fork();
  if (peer == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with this process, also if it is stopped */
    execl("/proc/self/exe", argv[0], texts[0], texts[1], (char*)NULL);
    _exit(127);
  }
  join(comms, ids, 0);
  if (waitpid(peer, &status, WUNTRACED) != peer || !WIFSTOPPED(status)) fail("the peer has ended");
  for (i = 0; i < kComms; ++i) {
    if (sparclIBroadcastDelta(weights[i], NULL, 4, sparclFloat32, 0, NULL, comms[i], NULL,
                              &requests[i]) != sparclSuccess)
      fail("a request");
  }
  result = sparclWaitAll(kComms, requests, NULL);
  if (result != sparclRemoteError || strstr(sparclGetLastError(NULL), "rank 1") == NULL)
    fail("the peer was not named in time");
  kill(peer, SIGKILL);
  (void)waitpid(peer, &status, 0);
  for (i = 0; i < kComms; ++i) (void)sparclCommDestroy(comms[i]);
  return 0;
}
