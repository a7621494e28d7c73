#pragma once
// The checks of the calls before they take part, and how calls begin.

#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>

#include "src/api/call.hpp"
#include "src/api/error.hpp"
#include "src/base/caught_error.hpp"
#include "src/sparse/parts/rank_tree.hpp"

namespace sparcl::api {

Status check_stream(sparclStream_t stream);
Status check_type(int datatype);
Status check_root(const sparclComm& comm, int root);
// Refuses a count that no array in memory can have. name: the parameter.
Status check_array(const char* name, std::uint64_t count, std::size_t element_bytes);
Status check_reduction(int op, int datatype);  // datatype: a valid one
sparse::Reduction reduction_of(int op);

inline Status first_error(std::initializer_list<Status> checks) {
  for (const Status& status : checks) {
    if (!status.ok()) return status;
  }
  return Status();
}

// Runs start(comm) on a communicator. A call that fails before its coroutine exists takes no part:
// the communicator fails, so that the peers do not wait for it.
template <class Start>
sparclResult_t start_call(const char* function, sparclComm_t handle, bool has_request,
                          Start&& start) {
  return guarded_in(function, handle, [&](sparclComm& comm) -> sparclResult_t {
    if (!has_request)
      return report_error(
          &comm, Status(Code::kInvalidArgument, std::string(function) + ": request is NULL"));
    try {
      return start(&comm);
    } catch (const std::exception&) {
      comm.engine.fail(caught_error("a call could not be started"), comm.transport->rank());
      comm.last_report = {};  // this call's: it has applied nothing
      return report_error(&comm, comm.engine.health());
    }
  });
}

}  // namespace sparcl::api
