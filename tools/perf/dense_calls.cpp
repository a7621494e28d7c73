// The dense calls that the sparse ones replace.
#include <algorithm>
#include <cstdlib>

#include "kernels/kernel_set.hpp"
#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

constexpr std::uint64_t kPieceBytes = 1 << 20;
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 30;  // MPI's counts are int

void add_bfloat16(void* in, void* inout, int* count, MPI_Datatype*) {
  constexpr std::size_t kChunk = 2048;
  alignas(64) static thread_local std::byte a[4 * kChunk], b[4 * kChunk];
  const kernels::ReduceKernels& kernels = kernels::cpu_kernels().reduce_of(DataType::kBfloat16);
  auto* from = static_cast<const std::byte*>(in);
  auto* into = static_cast<std::byte*>(inout);
  for (auto left = static_cast<std::size_t>(*count); left > 0;) {
    const std::size_t own = std::min(left, kChunk);
    kernels.widen(from, own, a);
    kernels.widen(into, own, b);
    kernels.combine[static_cast<std::size_t>(kernels::ReduceOp::kSum)](b, a, own);
    kernels.narrow(b, own, into);
    from += 2 * own, into += 2 * own, left -= own;
  }
}

MPI_Op sum_of(const ElementType& type) {
  if (type.type != sparclBfloat16) return MPI_SUM;
  static const MPI_Op op = [] {
    MPI_Op made;
    MPI_Op_create(add_bfloat16, 1, &made);
    return made;
  }();
  return op;
}

MPI_Datatype mpi_type(const ElementType& type) {
  switch (type.type) {
    case sparclFloat32:
      return MPI_FLOAT;
    case sparclFloat64:
      return MPI_DOUBLE;
    case sparclInt32:
      return MPI_INT32_T;
    case sparclInt64:
      return MPI_INT64_T;
    default:
      return MPI_UINT16_T;
  }
}

template <class Piece>
void for_pieces(const ElementType& type, std::uint64_t count, bool in_pieces, Piece&& piece) {
  const std::uint64_t most = (in_pieces ? kPieceBytes : kMaxBytes) / type.bytes;
  for (std::uint64_t at = 0; at < count; at += most)
    piece(at * type.bytes, static_cast<int>(std::min(most, count - at)));
}

}  // namespace

void dense_all_reduce(const ElementType& type, const std::byte* send, std::byte* receive,
                      std::uint64_t count, bool in_pieces) {
  for_pieces(type, count, in_pieces, [&](std::uint64_t byte, int own) {
    MPI_Allreduce(send + byte, receive + byte, own, mpi_type(type), sum_of(type), MPI_COMM_WORLD);
  });
}

void dense_broadcast(const ElementType& type, std::byte* array, std::uint64_t count,
                     bool in_pieces) {
  for_pieces(type, count, in_pieces, [&](std::uint64_t byte, int own) {
    MPI_Bcast(array + byte, own, mpi_type(type), 0, MPI_COMM_WORLD);
  });
}

}  // namespace sparcl::perf
