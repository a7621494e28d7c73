#include "src/api/call_checks.hpp"

#include <fmt/format.h>

namespace sparcl::api {

Status check_stream(sparclStream_t stream) {
  if (stream == nullptr) return Status();
  return Status(Code::kUnsupported, "a state's tensors are in the host's memory: pass stream NULL");
}

Status check_type(int datatype) {
  if (find_data_type(datatype) != nullptr) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("{} is no data type: give a sparclDataType_t", datatype));
}

Status check_root(const sparclComm& comm, int root) {
  if (root >= 0 && root < comm.transport->size()) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("root {} is no rank of this communicator: give 0 to {}", root,
                            comm.transport->size() - 1));
}

Status check_array(const char* name, std::uint64_t count, std::size_t element_bytes) {
  if (count <= static_cast<std::uint64_t>(PTRDIFF_MAX) / element_bytes) return Status();
  return Status(Code::kInvalidArgument,
                fmt::format("{} is {}: no array in memory has so many elements of {} bytes", name,
                            count, element_bytes));
}

Status check_reduction(int op, int datatype) {
  if (op < sparclSum || op > sparclAvg)
    return Status(Code::kInvalidArgument, fmt::format("{} is no reduction", op));
  if (op == sparclAvg && datatype == sparclBool)
    return Status(Code::kInvalidArgument, "sparclAvg of sparclBool has no meaning");
  return Status();
}

// A mean is a sum that is divided in the end.
sparse::Reduction reduction_of(int op) {
  if (op == sparclAvg) return {kernels::ReduceOp::kSum, true};
  return {static_cast<kernels::ReduceOp>(op), false};
}

}  // namespace sparcl::api
