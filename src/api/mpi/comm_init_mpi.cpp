#include <memory>

#include "sparcl/sparcl_mpi.h"
#include "src/api/comm.hpp"
#include "src/transport/mpi/mpi_transport.hpp"

extern "C" sparclResult_t sparclCommInitMpi(sparclComm_t* comm, MPI_Comm mpi, const sparclConfig_t* config) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised == 0) return sparclInternalReportError(sparclInvalidUsage, "sparclCommInitMpi: call MPI_Init first");
  if (mpi == MPI_COMM_NULL) return sparclInternalReportError(sparclInvalidArgument, "sparclCommInitMpi: mpi is MPI_COMM_NULL");
  // A rank that cannot go on says so before anybody waits for it in what follows.
  sparclResult_t mine = sparclInternalCheckConfig(config);
  if (comm == nullptr) mine = sparclInternalReportError(sparclInvalidArgument, "sparclCommInitMpi: comm is NULL");
  int own = mine, worst = 0;
  if (MPI_Allreduce(&own, &worst, 1, MPI_INT, MPI_MAX, mpi) != MPI_SUCCESS) {
    return sparclInternalReportError(sparclSystemError, "sparclCommInitMpi: MPI_Allreduce failed");
  }
  if (mine != sparclSuccess) return mine;
  if (worst != sparclSuccess) {
    return sparclInternalReportError(static_cast<sparclResult_t>(worst),
                                     "sparclCommInitMpi: another rank refused its config, its SPARCL_ settings or its arguments");
  }
  sparcl::Result<std::unique_ptr<sparcl::MpiTransport>> transport = sparcl::MpiTransport::create(mpi);
  if (!transport.ok()) {
    const sparcl::Status error = transport.status();
    return sparclInternalReportError(static_cast<sparclResult_t>(error.code()), error.message().c_str());
  }
  sparcl::Transport* body = transport->release();
  return sparclInternalCommInitTransport(comm, body, config);
}
