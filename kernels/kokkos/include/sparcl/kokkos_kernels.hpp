#pragma once
// Kernels of sparse collectives on Kokkos views, written once for every execution space: changed
// elements, large elements, gather, scatter, error feedback. All work is enqueued on the execution
// space's instance, and nothing waits for it: counts stay in its memory. Only TopK's constructor
// allocates memory. Views have one dimension and no strides. Results are bit-identical to those of
// sparcl's other kernels, in every execution space: no sum of floats depends on an order.
//
// Floats of 16 bits: sparcl::float16 and sparcl::bfloat16 of sparcl.hpp, and Kokkos' half_t and
// bhalf_t if they have 16 bits (on hosts they are float). They are computed in float, and rounded
// to nearest, ties to even.

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sparcl {
struct float16;  // of sparcl.hpp, which these kernels do not include
struct bfloat16;
}  // namespace sparcl

namespace sparcl::kokkos {

namespace detail {

template <std::size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t,
                       std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
KOKKOS_INLINE_FUNCTION UnsignedOf<sizeof(T)> bits_of(const T& value) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  UnsignedOf<sizeof(T)> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <class T, class Bits>
KOKKOS_INLINE_FUNCTION T value_of(Bits bits) {
  static_assert(sizeof(T) == sizeof(Bits));
  T value;
  std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
  return value;
}

// The format of a type that is a float of 16 bits.
enum class Half { kNone, kFloat16, kBfloat16 };
template <class T>
inline constexpr Half half_of = Half::kNone;
template <>
inline constexpr Half half_of<float16> = Half::kFloat16;
template <>
inline constexpr Half half_of<bfloat16> = Half::kBfloat16;
#if defined(KOKKOS_HALF_T_IS_FLOAT) && !KOKKOS_HALF_T_IS_FLOAT
template <>
inline constexpr Half half_of<Kokkos::Experimental::half_t> = Half::kFloat16;
#endif
#if defined(KOKKOS_BHALF_T_IS_FLOAT) && !KOKKOS_BHALF_T_IS_FLOAT
template <>
inline constexpr Half half_of<Kokkos::Experimental::bhalf_t> = Half::kBfloat16;
#endif

// Constants, because device code calls no constexpr functions of the host.
template <class T>
inline constexpr bool is_float =
    std::is_same_v<T, float> || std::is_same_v<T, double> || half_of<T> != Half::kNone;
template <class T>
inline constexpr bool has_magnitude = is_float<T> || (std::is_integral_v<T> && sizeof(T) <= 8);
// Both of one type, or a float and a float of 16 bits.
template <class Residual, class Value>
inline constexpr bool can_accumulate = (std::is_same_v<Residual, float> &&
                                        half_of<Value> != Half::kNone) ||
                                       (std::is_same_v<Residual, Value> && has_magnitude<Value> &&
                                        !std::is_same_v<Value, bool>);
template <class Bits>
inline constexpr Bits all_but_sign = std::numeric_limits<Bits>::max() >> 1;
template <class T>
inline constexpr UnsignedOf<sizeof(T)> infinity =
    static_cast<UnsignedOf<sizeof(T)>>(sizeof(T) == 8                 ? 0x7ff0000000000000
                                       : sizeof(T) == 4               ? 0x7f800000
                                       : half_of<T> == Half::kFloat16 ? 0x7c00
                                                                      : 0x7f80);

// Converts a float of 16 bits to float.
template <class T>
KOKKOS_INLINE_FUNCTION float widened(const T& value) {
  const std::uint32_t bits = bits_of(value);
  if constexpr (half_of<T> == Half::kBfloat16) {
    return value_of<float>(bits << 16);
  } else {
    const std::uint32_t sign = (bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f,
                        fraction = bits & 0x3ff;
    std::uint32_t magnitude = (exponent + 127 - 15) << 23 | fraction << 13;
    if (exponent == 0) magnitude = bits_of(static_cast<float>(fraction) * 0x1p-24F);
    if (exponent == 0x1f) magnitude = 0x7f800000 | fraction << 13;
    return value_of<float>(sign | magnitude);
  }
}

// The inverse: rounds to nearest, ties to even. Values that are too large become infinite, NaN the
// quiet NaN.
template <class T>
KOKKOS_INLINE_FUNCTION T rounded(float value) {
  const std::uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000,
                      magnitude = bits & 0x7fffffff;
  const bool is_nan = magnitude > 0x7f800000;
  std::uint32_t result = 0;
  if constexpr (half_of<T> == Half::kBfloat16) {
    result = is_nan ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  } else if (is_nan) {
    result = 0x7e00;
  } else if (magnitude >= 0x477ff000) {  // 65520: halfway to the next number, which does not exist
    result = sign | 0x7c00;
  } else if (magnitude < 0x38800000) {  // 2^-14: floats below it are multiples of 2^-24, as are
                                        // floats from 0.5 on
    result = sign | (bits_of(value_of<float>(magnitude) + 0.5F) - bits_of(0.5F));
  } else {
    result = sign | (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  }
  return value_of<T>(static_cast<std::uint16_t>(result));
}

// Grows with |x|: 0 only for zeros, and NaN > infinity > finite; all NaNs are equal.
template <class T>
KOKKOS_INLINE_FUNCTION UnsignedOf<sizeof(T)> magnitude_key(const T& value) {
  using Bits = UnsignedOf<sizeof(T)>;
  if constexpr (is_float<T>) {
    const auto key = static_cast<Bits>(bits_of(value) & all_but_sign<Bits>);
    return key > infinity<T> ? static_cast<Bits>(infinity<T> + 1) : key;
  } else if constexpr (std::is_signed_v<T>) {
    return value < 0 ? static_cast<Bits>(Bits{0} - static_cast<Bits>(value))
                     : static_cast<Bits>(value);
  } else {
    return value;
  }
}

// The value as T, with one bit pattern a number: never -0, and each NaN is the quiet NaN.
template <class T, class Value>
KOKKOS_INLINE_FUNCTION T sum_of(const T& a, const Value& b) {
  if constexpr (half_of<T> != Half::kNone) {
    return rounded<T>(sum_of(widened(a), widened(b)));
  } else if constexpr (half_of<Value> != Half::kNone) {
    return sum_of(a, widened(b));
  } else if constexpr (is_float<T>) {
    const T sum = a + b;
    if (sum != sum)
      return value_of<T>(UnsignedOf<sizeof(T)>{sizeof(T) == 4 ? 0x7fc00000U : 0x7ff8000000000000U});
    return sum == T{0} ? T{0} : sum;
  } else {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) +
                          static_cast<std::make_unsigned_t<T>>(b));
  }
}

template <class Space>
using Range = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::uint64_t>>;
template <class Space>
Range<Space> range(const Space& space, std::uint64_t count) {
  return Range<Space>(space, 0, count);
}

template <class View>
constexpr bool is_plain() {
  using Layout = typename View::array_layout;
  return View::rank == 1 && (std::is_same_v<Layout, Kokkos::LayoutLeft> ||
                             std::is_same_v<Layout, Kokkos::LayoutRight>);
}

// The elements that a predicate accepts, in order.
template <class Predicate, class Indices, class Count>
struct Compact {
  Predicate takes;
  Indices indices;
  Count count;
  std::uint64_t elements;

  KOKKOS_FUNCTION void operator()(std::uint64_t i, std::uint64_t& found, bool is_final) const {
    const bool taken = takes(i);
    if (is_final && taken && found < indices.extent(0)) indices(found) = i;
    found += taken ? 1 : 0;
    if (is_final && i + 1 == elements) count() = found;
  }
};

template <class Space, class Predicate, class Indices, class Count>
void compact(const Space& space, std::uint64_t elements, const Predicate& takes,
             const Indices& indices, const Count& count) {
  Kokkos::deep_copy(space, count, std::uint64_t{0});
  if (elements == 0) return;
  Kokkos::parallel_scan("sparcl::compact", range(space, elements),
                        Compact<Predicate, Indices, Count>{takes, indices, count, elements});
}

template <class Base, class Target>
struct Differs {
  Base base;
  Target target;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
    return bits_of(base(i)) != bits_of(target(i));
  }
};

template <class Array, class Key>
struct IsAtLeast {
  Array array;
  Key least;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
    return magnitude_key(array(i)) >= least;
  }
};

template <class Array, class Indices, class Count, class Values>
struct Gather {
  Array array;
  Indices indices;
  Count count;
  Values values;
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
    if (i < count()) values(i) = array(indices(i));
  }
};

template <class Values, class Indices, class Count, class Array>
struct Scatter {
  Values values;
  Indices indices;
  Count count;
  Array array;
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
    if (i < count()) array(indices(i)) = values(i);
  }
};

template <class Indices, class Count, class Array>
struct Clear {
  Indices indices;
  Count count;
  Array array;
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
    if (i < count()) array(indices(i)) = typename Array::non_const_value_type{};
  }
};

template <class Values, class Residual>
struct Accumulate {
  Values values;
  Residual residual;
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
    residual(i) = sum_of(residual(i), values(i));
  }
};

// Kernels of TopK, and its data on the device.
namespace top_k {

constexpr std::size_t kDigits = 256;

struct State {
  std::uint64_t key = 0;       // the digits found of the smallest key taken
  std::uint64_t rest = 0;      // the number of elements to take among those with these digits
  std::uint64_t last_tie = 0;  // index of the last element taken of those with this key
};
template <class Space>
using StateView = Kokkos::View<State, typename Space::memory_space>;
template <class Space>
using Digits = Kokkos::View<std::uint64_t*, typename Space::memory_space>;

template <class Space>
struct Begin {
  StateView<Space> state;
  std::uint64_t k;
  KOKKOS_FUNCTION void operator()(std::uint64_t) const { state() = State{0, k, 0}; }
};

template <class Space, class Array>
struct CountDigits {
  Array array;
  StateView<Space> state;
  Digits<Space> digits;
  unsigned shift;
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
    const std::uint64_t key = magnitude_key(array(i));
    const bool is_first = shift + 8 >= 8 * sizeof(typename Array::non_const_value_type);
    const bool has_digits = is_first || key >> (shift + 8) == state().key >> (shift + 8);
    if (key != 0 && has_digits) Kokkos::atomic_add(&digits(key >> shift & 255), std::uint64_t{1});
  }
};

// The digit of the smallest key taken. If there are fewer than k elements, it is the lowest digit
// present.
template <class Space>
struct ChooseDigit {
  Digits<Space> digits;
  StateView<Space> state;
  unsigned shift;
  KOKKOS_FUNCTION void operator()(std::uint64_t) const {
    State& own = state();
    std::uint64_t least = 0, before_least = own.rest;
    for (std::uint64_t digit = kDigits; digit-- > 0;) {
      if (digits(digit) == 0) continue;
      least = digit;
      before_least = own.rest;
      if (digits(digit) >= own.rest) break;
      own.rest -= digits(digit);
    }
    own.rest = before_least;
    own.key |= least << shift;
  }
};

template <class Space, class Array>
struct IsTie {
  Array array;
  StateView<Space> state;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
    return state().key != 0 && magnitude_key(array(i)) == state().key;
  }
};

// An output for the indices of ties that keeps only the last index taken.
template <class Space>
struct LastTie {
  StateView<Space> state;
  struct Place {
    StateView<Space> state;
    std::uint64_t number;
    KOKKOS_FUNCTION void operator=(std::uint64_t index) const {
      if (number + 1 <= state().rest) (void)Kokkos::atomic_fetch_max(&state().last_tie, index);
    }
  };
  KOKKOS_FUNCTION std::uint64_t extent(int) const { return ~std::uint64_t{0}; }
  KOKKOS_FUNCTION Place operator()(std::uint64_t number) const { return {state, number}; }
};

template <class Space, class Array>
struct IsTaken {
  Array array;
  StateView<Space> state;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
    const std::uint64_t key = magnitude_key(array(i)), least = state().key;
    return least != 0 && state().rest != 0 &&
           (key > least || (key == least && i <= state().last_tie));
  }
};

}  // namespace top_k

}  // namespace detail

// The number of valid entries of an output, in the execution space's memory.
template <class Space>
using Count = Kokkos::View<std::uint64_t, typename Space::memory_space>;

// Waits for the enqueued work and returns the number.
template <class Space>
std::uint64_t wait_for(const Space& space, const Count<Space>& count) {
  std::uint64_t value = 0;
  Kokkos::deep_copy(space, value, count);
  space.fence();
  return value;
}

// The indices of the elements that differ, bit for bit (-0 differs from +0, a NaN equals itself),
// ascending. base, target: equally many elements, of 1, 2, 4 or 8 bytes. indices: room for all that
// may differ; elements beyond the room are counted, but not written.
template <class Space, class Base, class Target, class Indices>
void find_changed(const Space& space, const Base& base, const Target& target,
                  const Indices& indices, const Count<Space>& count) {
  static_assert(detail::is_plain<Base>() && detail::is_plain<Target>() &&
                detail::is_plain<Indices>());
  detail::compact(space, target.extent(0), detail::Differs<Base, Target>{base, target}, indices,
                  count);
}

// The elements with |x| >= |least|, NaN included; least: not 0. Types: float, double, floats of 16
// bits, and integers.
template <class Space, class Array, class Indices>
void find_at_least(const Space& space, const Array& array,
                   const typename Array::non_const_value_type& least, const Indices& indices,
                   const Count<Space>& count) {
  static_assert(detail::is_plain<Array>() && detail::is_plain<Indices>());
  static_assert(
      detail::has_magnitude<typename Array::non_const_value_type>,
      "find_at_least takes float, double, floats of 16 bits (of sparcl or Kokkos), and integers");
  const auto key = detail::magnitude_key(least);
  detail::compact(space, array.extent(0), detail::IsAtLeast<Array, decltype(key)>{array, key},
                  indices, count);
}

// values(i) = array(indices(i)), i < count.
template <class Space, class Array, class Indices, class Values>
void gather(const Space& space, const Array& array, const Indices& indices,
            const Count<Space>& count, const Values& values) {
  Kokkos::parallel_for(
      "sparcl::gather", detail::range(space, indices.extent(0)),
      detail::Gather<Array, Indices, Count<Space>, Values>{array, indices, count, values});
}

// array(indices(i)) = values(i), i < count; applies an update. Indices differ from each other.
template <class Space, class Values, class Indices, class Array>
void scatter(const Space& space, const Values& values, const Indices& indices,
             const Count<Space>& count, const Array& array) {
  Kokkos::parallel_for(
      "sparcl::scatter", detail::range(space, indices.extent(0)),
      detail::Scatter<Values, Indices, Count<Space>, Array>{values, indices, count, array});
}

// Error feedback: residual += values. Both are of one type: float, double, floats of 16 bits (each
// sum is rounded), or integers, which wrap around. Or values have 16 bits and the residual is
// float, which keeps the bits that a residual of 16 bits would round off.
template <class Space, class Values, class Residual>
void accumulate(const Space& space, const Values& values, const Residual& residual) {
  static_assert(
      detail::can_accumulate<typename Residual::value_type, typename Values::non_const_value_type>,
      "accumulate takes values and a residual of one type (float, double, floats of 16 bits, "
      "integers), or values of 16 bits and a residual of float");
  Kokkos::parallel_for("sparcl::accumulate", detail::range(space, values.extent(0)),
                       detail::Accumulate<Values, Residual>{values, residual});
}

// Error feedback: residual(indices(i)) = 0, i < count, for the elements that were sent.
template <class Space, class Indices, class Residual>
void clear_sent(const Space& space, const Indices& indices, const Count<Space>& count,
                const Residual& residual) {
  Kokkos::parallel_for("sparcl::clear_sent", detail::range(space, indices.extent(0)),
                       detail::Clear<Indices, Count<Space>, Residual>{indices, count, residual});
}

// The exact k largest elements by magnitude: those that are not 0, NaN > infinity > finite, ties to
// the lower index. Counts the keys' digits from the highest on (radix select): a pass over the
// array for each byte of an element, and two more. Elements: float, double, floats of 16 bits, and
// integers.
template <class Space>
class TopK {
 public:
  explicit TopK(const Space& space)
      : space_(space),
        digits_("sparcl::digits", detail::top_k::kDigits),
        state_("sparcl::top_k"),
        taken_("sparcl::taken") {}

  // indices: room for k; ascending. count: min(k, elements that are not 0).
  template <class Array, class Indices>
  void find(const Array& array, std::uint64_t k, const Indices& indices,
            const Count<Space>& count) {
    using Element = typename Array::non_const_value_type;
    static_assert(detail::is_plain<Array>() && detail::is_plain<Indices>());
    static_assert(
        detail::has_magnitude<Element>,
        "TopK takes float, double, floats of 16 bits (of sparcl or Kokkos), and integers");
    using namespace detail::top_k;
    const std::uint64_t elements = array.extent(0);
    Kokkos::parallel_for("sparcl::begin", detail::range(space_, 1), Begin<Space>{state_, k});
    for (unsigned shift = 8 * sizeof(Element); shift > 0;) {
      shift -= 8;
      Kokkos::deep_copy(space_, digits_, std::uint64_t{0});
      Kokkos::parallel_for("sparcl::count_digits", detail::range(space_, elements),
                           CountDigits<Space, Array>{array, state_, digits_, shift});
      Kokkos::parallel_for("sparcl::choose_digit", detail::range(space_, 1),
                           ChooseDigit<Space>{digits_, state_, shift});
    }
    // Finds the index up to which elements equal to the smallest key are taken.
    detail::compact(space_, elements, IsTie<Space, Array>{array, state_}, LastTie<Space>{state_},
                    taken_);
    detail::compact(space_, elements, IsTaken<Space, Array>{array, state_}, indices, count);
  }

 private:
  Space space_;
  detail::top_k::Digits<Space> digits_;
  detail::top_k::StateView<Space> state_;
  Count<Space> taken_;
};

}  // namespace sparcl::kokkos
