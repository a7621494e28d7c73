#include "src/api/entry_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "src/api/call_checks.hpp"
#include "src/base/data_type.hpp"
#include "src/sparse/parts/entry_part.hpp"

namespace sparcl::api {
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a),
             second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

Status check_outputs_apart(const EntryArguments& given) {
  const std::size_t width = element_bytes(static_cast<DataType>(given.datatype));
  constexpr std::size_t kIndex = sizeof(uint64_t);
  const bool is_nominal = given.out_capacity > static_cast<std::size_t>(PTRDIFF_MAX) / kIndex;
  const std::size_t room = is_nominal ? std::min(given.nnz, given.count) : given.room();
  struct Array {
    const char* name;
    const void* begin;
    std::size_t bytes;
  };
  const Array inputs[] = {{"values", given.values, given.nnz * width},
                          {"indices", given.indices, given.nnz * kIndex}};
  const Array values{"out_values", given.out_values, room * width},
      indices{"out_indices", given.out_indices, room * kIndex};
  const auto check = [](const Array& a, const Array& b) {
    if (!overlap(a.begin, a.bytes, b.begin, b.bytes)) return Status();
    return Status(Code::kInvalidArgument,
                  fmt::format("{} overlaps {}: inputs are read while outputs are written, each "
                              "into an array of its own",
                              a.name, b.name));
  };
  return first_error({check(values, inputs[0]), check(values, inputs[1]), check(indices, inputs[0]),
                      check(indices, inputs[1]), check(values, indices)});
}

}  // namespace

std::size_t EntryArguments::room() const {
  return std::min({out_capacity, count, static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(uint64_t)});
}

Status check_entries(const EntryArguments& given) {
  if (given.out_nnz == nullptr) return Status(Code::kInvalidArgument, "out_nnz is NULL");
  if (given.count > sparse::kMaxSparseCount) {
    return Status(Code::kInvalidArgument,
                  fmt::format("count is {}: indices are below 2^63", given.count));
  }
  const std::size_t width = element_bytes(static_cast<DataType>(given.datatype));
  SPARCL_RETURN_IF_ERROR(check_array("nnz", given.nnz, std::max(width, sizeof(uint64_t))));
  if (given.nnz > 0 && (given.values == nullptr || given.indices == nullptr)) {
    return Status(Code::kInvalidArgument, "values or indices is NULL");
  }
  if (given.out_capacity > 0 && (given.out_values == nullptr || given.out_indices == nullptr)) {
    return Status(Code::kInvalidArgument, "out_values or out_indices is NULL");
  }
  return check_outputs_apart(given);
}

}  // namespace sparcl::api
