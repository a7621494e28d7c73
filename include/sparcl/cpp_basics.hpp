#pragma once
// Errors, data types and what the classes of sparcl.hpp are made of.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>

#include "sparcl/core.h"

namespace sparcl {

class Error : public std::runtime_error {
 public:
  Error(sparclResult_t result, const std::string& text)
      : std::runtime_error(text), result_(result) {}
  sparclResult_t result() const { return result_; }
  // The communicator is over: shrink() or destroy it.
  bool poisons() const {
    return result_ == sparclRemoteError || result_ == sparclTimeout || result_ == sparclSystemError;
  }

 private:
  sparclResult_t result_;
};

// The one place where results become exceptions.
inline void check(sparclResult_t result, sparclComm_t comm = nullptr) {
  if (result == sparclSuccess) return;
  const char* text = sparclGetLastError(comm);
  throw Error(result, *text != '\0' ? text : sparclGetErrorString(result));
}

// A bfloat16 as its bits: enough to name the type; arithmetic is the caller's.
struct bfloat16 {
  std::uint16_t bits;
};
struct float16 {
  std::uint16_t bits;
};

template <class T>
constexpr sparclDataType_t data_type() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>)
    return sparclBool;
  else if constexpr (std::is_same_v<U, float>)
    return sparclFloat32;
  else if constexpr (std::is_same_v<U, double>)
    return sparclFloat64;
  else if constexpr (std::is_same_v<U, bfloat16>)
    return sparclBfloat16;
  else if constexpr (std::is_same_v<U, float16>)
    return sparclFloat16;
  else if constexpr (std::integral<U> && sizeof(U) == 1)
    return std::is_signed_v<U> ? sparclInt8 : sparclUint8;
  else if constexpr (std::integral<U> && sizeof(U) == 2)
    return std::is_signed_v<U> ? sparclInt16 : sparclUint16;
  else if constexpr (std::integral<U> && sizeof(U) == 4)
    return std::is_signed_v<U> ? sparclInt32 : sparclUint32;
  else {
    static_assert(std::integral<U> && sizeof(U) == 8, "sparcl has no data type for this C++ type");
    return std::is_signed_v<U> ? sparclInt64 : sparclUint64;
  }
}

using Report = sparclReport_t;
using Hash = std::array<std::uint8_t, 16>;

namespace detail {
// sparcl_mpi.h has that of MPI_Comm.
template <class MpiComm>
struct InitMpi {
  static_assert(sizeof(MpiComm) == 0,
                "Comm::mpi takes an MPI_Comm: include <sparcl/sparcl_mpi.h>, and link sparcl::mpi "
                "(pkg-config: sparcl-mpi)");
  static sparclResult_t call(sparclComm_t*, MpiComm, const sparclConfig_t*) {
    return sparclInvalidUsage;
  }
};

// std::vector, std::array, C arrays and spans of any extent. A std::span<T> itself has overloads of
// its own, which also take what converts to one where T is named: all_reduce_top_k<float>(...).
template <class Array>
using ElementOf = std::remove_reference_t<std::ranges::range_reference_t<Array>>;
template <class Array>
concept IsRange = std::ranges::contiguous_range<Array> && std::ranges::sized_range<Array>;
template <class Array>
concept IsArray =
    IsRange<Array> && !std::is_same_v<std::remove_cvref_t<Array>, std::span<ElementOf<Array>>>;
// An array that a call writes.
template <class Array>
std::span<ElementOf<Array>> written(Array& array) {
  static_assert(!std::is_const_v<ElementOf<Array>>,
                "this call writes the array: give one whose elements are not const");
  return {std::ranges::data(array), std::ranges::size(array)};
}
// The input of a call that writes `Array`.
template <class Array>
using InputOf = std::span<const std::remove_cv_t<ElementOf<Array>>>;

template <auto destroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
// The same; then what the handle needs goes.
template <auto destroy, class... Needed>
struct DestroyBefore {
  std::tuple<Needed...> needed;
  template <class Handle>
  void operator()(Handle* handle) const {
    (void)destroy(handle);
  }
};
}  // namespace detail

// 128 bytes by which ranks without MPI find each other; this process must live until they have met.
inline sparclUniqueId unique_id() {
  sparclUniqueId id;
  check(sparclGetUniqueId(&id));
  return id;
}

}  // namespace sparcl
