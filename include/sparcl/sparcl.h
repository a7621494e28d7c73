/** @file
 * sparcl: sparse collectives and delta weight replication (C99).
 *
 * Two ranks, as threads of one process or as MPI processes (sparcl_mpi.h), run the same calls:
 * @code
 * float grad[1000];                              // this rank's gradient
 * sparclFeedback_t feedback = NULL;              // what this rank has not sent yet
 * sparclFeedbackCreate(&feedback, 1000, sparclFloat32);
 * for (int step = 0; step < steps; ++step) {
 *   compute_gradient(grad);
 *   if (sparclAllReduceTopK(grad, grad, 1000, 10, sparclFloat32, sparclAvg, feedback, NULL, comm,
 *                           NULL) != sparclSuccess)
 *     die(sparclGetLastError(comm));
 * }
 * @endcode
 * docs/index.md leads to tutorials, guides and the reference.
 */
#ifndef SPARCL_SPARCL_H_
#define SPARCL_SPARCL_H_

#include "sparcl/aggregate.h"
#include "sparcl/collectives.h"
#include "sparcl/core.h"
#include "sparcl/elastic.h"
#include "sparcl/file.h"
#include "sparcl/replication.h"
#include "sparcl/state.h"
#include "sparcl/store.h"

#endif /* SPARCL_SPARCL_H_ */
