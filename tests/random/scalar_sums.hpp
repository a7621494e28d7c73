#pragma once
// What elements of several ranks come to, one at a time, as the interface says it: widened,
// combined in one tree over the ranks, rounded once. Scalar and plain: an oracle.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "tests/random/values.hpp"

namespace sparcl::test {

// Calls visit with a zero of the type that elements are summed in: float for floats of 16 bits and
// less.
template <class Visit>
auto with_accumulator(sparclDataType_t datatype, Visit visit) {
  switch (datatype) {
    case sparclInt8:
      return visit(std::int8_t{});
    case sparclInt16:
      return visit(std::int16_t{});
    case sparclUint16:
      return visit(std::uint16_t{});
    case sparclInt32:
      return visit(std::int32_t{});
    case sparclUint32:
      return visit(std::uint32_t{});
    case sparclInt64:
      return visit(std::int64_t{});
    case sparclUint64:
      return visit(std::uint64_t{});
    case sparclFloat64:
      return visit(double{});
    case sparclUint8:
    case sparclBool:
      return visit(std::uint8_t{});
    default:
      return visit(float{});
  }
}

// One NaN, one zero.
template <class A>
A canonical(A value) {
  if constexpr (std::is_floating_point_v<A>)
    return std::isnan(value) ? std::numeric_limits<A>::quiet_NaN() : value + A{0};
  return value;
}

template <class A>
A widened(sparclDataType_t datatype, const unsigned char* at) {
  if constexpr (std::is_floating_point_v<A>)
    return canonical(static_cast<A>(number_at(datatype, at)));
  A value{};
  std::memcpy(&value, at, sizeof value);
  return datatype == sparclBool ? static_cast<A>(value != 0) : value;
}

template <class A>
void narrow(sparclDataType_t datatype, A value, unsigned char* at) {
  if constexpr (std::is_floating_point_v<A>)
    return put_number(datatype, static_cast<double>(value), at);
  std::memcpy(at, &value, sizeof value);
}

// Integers modulo their range; with a NaN, NaN.
template <class A>
A combined(sparclRedOp_t op, sparclDataType_t datatype, A a, A b) {
  if (datatype == sparclBool) op = op == sparclSum || op == sparclMax ? sparclMax : sparclMin;
  if constexpr (std::is_floating_point_v<A>) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<A>::quiet_NaN();
  }
  using Wide = std::conditional_t<std::is_integral_v<A>, std::uint64_t, A>;
  switch (op) {
    case sparclProd:
      return static_cast<A>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case sparclMax:
      return a > b ? a : b;
    case sparclMin:
      return a < b ? a : b;
    default:
      return static_cast<A>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

template <class A>
A divided(A value, std::size_t ranks) {
  if constexpr (std::is_signed_v<A> && std::is_integral_v<A>)
    return static_cast<A>(std::int64_t{value} / static_cast<std::int64_t>(ranks));
  if constexpr (std::is_unsigned_v<A>) return static_cast<A>(std::uint64_t{value} / ranks);
  return static_cast<A>(value / static_cast<A>(ranks));
}

// T(a, b) = T(a, m) op T(m, b), m = a + the largest power of two below b - a; who has none
// contributes nothing.
template <class A>
std::optional<A> over_ranks(sparclRedOp_t op, sparclDataType_t datatype,
                            std::span<const std::optional<A>> by_rank) {
  if (by_rank.size() == 1) return by_rank[0];
  const std::size_t middle = std::bit_floor(by_rank.size() - 1);
  const auto left = over_ranks(op, datatype, by_rank.first(middle)),
             right = over_ranks(op, datatype, by_rank.subspan(middle));
  if (!left || !right) return left ? left : right;
  return combined(op, datatype, *left, *right);
}

// The elements of a result: a mean is divided before it is rounded.
template <class A>
void write_result(sparclRedOp_t op, sparclDataType_t datatype, A value, std::size_t ranks,
                  unsigned char* at) {
  narrow(datatype, op == sparclAvg ? divided(value, ranks) : value, at);
}

}  // namespace sparcl::test
