/* libsparcl_mpi beside a libsparcl of another build: refused by name, before C++ objects pass
 * between them. */
#include <mpi.h>
#include <sparcl/sparcl_mpi.h>
#include <stdio.h>
#include <string.h>

/* Stands in for libsparcl's. */
SPARCL_API const char* sparclInternalBuild(void);
const char* sparclInternalBuild(void) { return "0.0.9-of-another-build"; }

int main(int argc, char** argv) {
  sparclComm_t comm = NULL;
  sparclResult_t result;
  const char* text;
  int is_refused;
  MPI_Init(&argc, &argv);
  result = sparclCommInitMpi(&comm, MPI_COMM_WORLD, NULL);
  text = sparclGetLastError(NULL);
  is_refused = result == sparclUnsupported && comm == NULL &&
               strstr(text, "0.0.9-of-another-build") != NULL &&
               strstr(text, "install both from the same build") != NULL;
  if (!is_refused) fprintf(stderr, "result %d: %s\n", (int)result, text);
  MPI_Finalize();
  return is_refused ? 0 : 1;
}
