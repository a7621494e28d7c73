#pragma once
// Kernels of sparse collectives on Kokkos views, written once for every execution space: what has changed, what is large, gather,
// scatter, error feedback. All work is enqueued on the execution space's instance, and nothing waits for it: counts stay in its
// memory. Nothing is allocated but by TopK's constructor. Views have one dimension and no strides. Results are those of sparcl's
// other kernels bit for bit, in every execution space: no sum of floats depends on an order.

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace sparcl::kokkos {

namespace detail {

template <std::size_t kBytes>
using UnsignedOf = std::conditional_t<
    kBytes == 1, std::uint8_t,
    std::conditional_t<kBytes == 2, std::uint16_t, std::conditional_t<kBytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
KOKKOS_INLINE_FUNCTION UnsignedOf<sizeof(T)> bits_of(const T& value) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  UnsignedOf<sizeof(T)> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

template <class T, class Bits>
KOKKOS_INLINE_FUNCTION T value_of(Bits bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Grows with |x|: 0 only for zeros, and NaN > infinity > finite.
template <class T>
KOKKOS_INLINE_FUNCTION UnsignedOf<sizeof(T)> magnitude_key(const T& value) {
  using Bits = UnsignedOf<sizeof(T)>;
  if constexpr (std::is_floating_point_v<T>) {
    return bits_of(value) & static_cast<Bits>(std::numeric_limits<Bits>::max() >> 1);
  } else if constexpr (std::is_signed_v<T>) {
    return value < 0 ? static_cast<Bits>(Bits{0} - static_cast<Bits>(value)) : static_cast<Bits>(value);
  } else {
    return value;
  }
}

// One pattern of bits a number: never -0, and each NaN is the quiet one.
template <class T>
KOKKOS_INLINE_FUNCTION T sum_of(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T sum = a + b;
    if (sum != sum) return value_of<T>(UnsignedOf<sizeof(T)>{sizeof(T) == 4 ? 0x7fc00000U : 0x7ff8000000000000U});
    return sum == T{0} ? T{0} : sum;
  } else {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
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
  return View::rank == 1 && (std::is_same_v<Layout, Kokkos::LayoutLeft> || std::is_same_v<Layout, Kokkos::LayoutRight>);
}

// The elements that a predicate takes, in order.
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
void compact(const Space& space, std::uint64_t elements, const Predicate& takes, const Indices& indices, const Count& count) {
  Kokkos::deep_copy(space, count, std::uint64_t{0});
  if (elements == 0) return;
  Kokkos::parallel_scan("sparcl::compact", range(space, elements),
                        Compact<Predicate, Indices, Count>{takes, indices, count, elements});
}

template <class Base, class Target>
struct Differs {
  Base base;
  Target target;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const { return bits_of(base(i)) != bits_of(target(i)); }
};

template <class Array, class Key>
struct IsAtLeast {
  Array array;
  Key least;
  KOKKOS_FUNCTION bool operator()(std::uint64_t i) const { return magnitude_key(array(i)) >= least; }
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
  KOKKOS_FUNCTION void operator()(std::uint64_t i) const { residual(i) = sum_of(residual(i), values(i)); }
};

}  // namespace detail

// How many of the places behind it are filled: in the execution space's memory.
template <class Space>
using Count = Kokkos::View<std::uint64_t, typename Space::memory_space>;

// Waits for what was enqueued, and says how many.
template <class Space>
std::uint64_t wait_for(const Space& space, const Count<Space>& count) {
  std::uint64_t value = 0;
  Kokkos::deep_copy(space, value, count);
  space.fence();
  return value;
}

// The elements that differ, bit for bit (-0 differs from +0, a NaN equals itself): their indices, ascending. base, target: as many
// elements, of 1, 2, 4 or 8 bytes. indices: room for as many as may differ; what has no room is counted, and left out.
template <class Space, class Base, class Target, class Indices>
void find_changed(const Space& space, const Base& base, const Target& target, const Indices& indices, const Count<Space>& count) {
  static_assert(detail::is_plain<Base>() && detail::is_plain<Target>() && detail::is_plain<Indices>());
  detail::compact(space, target.extent(0), detail::Differs<Base, Target>{base, target}, indices, count);
}

// Those of |x| >= |least|, NaN among them; least: not 0.
template <class Space, class Array, class Indices>
void find_at_least(const Space& space, const Array& array, const typename Array::non_const_value_type& least,
                   const Indices& indices, const Count<Space>& count) {
  static_assert(detail::is_plain<Array>() && detail::is_plain<Indices>());
  const auto key = detail::magnitude_key(least);
  detail::compact(space, array.extent(0), detail::IsAtLeast<Array, decltype(key)>{array, key}, indices, count);
}

// values(i) = array(indices(i)), i < count.
template <class Space, class Array, class Indices, class Values>
void gather(const Space& space, const Array& array, const Indices& indices, const Count<Space>& count, const Values& values) {
  Kokkos::parallel_for("sparcl::gather", detail::range(space, indices.extent(0)),
                       detail::Gather<Array, Indices, Count<Space>, Values>{array, indices, count, values});
}

// array(indices(i)) = values(i), i < count: an update is applied so. Indices differ from each other.
template <class Space, class Values, class Indices, class Array>
void scatter(const Space& space, const Values& values, const Indices& indices, const Count<Space>& count, const Array& array) {
  Kokkos::parallel_for("sparcl::scatter", detail::range(space, indices.extent(0)),
                       detail::Scatter<Values, Indices, Count<Space>, Array>{values, indices, count, array});
}

// Error feedback: residual += values, of float, double, or integers of 32 and 64 bits, which wrap around.
template <class Space, class Values, class Residual>
void accumulate(const Space& space, const Values& values, const Residual& residual) {
  Kokkos::parallel_for("sparcl::accumulate", detail::range(space, values.extent(0)),
                       detail::Accumulate<Values, Residual>{values, residual});
}

// And what was sent leaves it: residual(indices(i)) = 0, i < count.
template <class Space, class Indices, class Residual>
void clear_sent(const Space& space, const Indices& indices, const Count<Space>& count, const Residual& residual) {
  Kokkos::parallel_for("sparcl::clear_sent", detail::range(space, indices.extent(0)),
                       detail::Clear<Indices, Count<Space>, Residual>{indices, count, residual});
}

// The exact k largest elements by magnitude: those that are not 0, NaN > infinity > finite, ties to the lower index. By counting
// the keys' digits from the highest on (radix select): a pass over the array for each byte of an element, and two more.
template <class Space>
class TopK {
 public:
  explicit TopK(const Space& space)
      : space_(space), digits_("sparcl::digits", kDigits), state_("sparcl::top_k"), taken_("sparcl::taken") {}

  // indices: room for k; ascending. count: min(k, elements that are not 0).
  template <class Array, class Indices>
  void find(const Array& array, std::uint64_t k, const Indices& indices, const Count<Space>& count) {
    static_assert(detail::is_plain<Array>() && detail::is_plain<Indices>());
    using Key = detail::UnsignedOf<sizeof(typename Array::non_const_value_type)>;
    const std::uint64_t elements = array.extent(0);
    Kokkos::parallel_for("sparcl::begin", detail::range(space_, 1), Begin{state_, k});
    for (int shift = 8 * static_cast<int>(sizeof(Key)) - 8; shift >= 0; shift -= 8) {
      Kokkos::deep_copy(space_, digits_, std::uint64_t{0});
      Kokkos::parallel_for("sparcl::count_digits", detail::range(space_, elements),
                           CountDigits<Array, Key>{array, state_, digits_, static_cast<unsigned>(shift)});
      Kokkos::parallel_for("sparcl::choose_digit", detail::range(space_, 1),
                           ChooseDigit{digits_, state_, static_cast<unsigned>(shift)});
    }
    // Of those like the least one so many are taken: up to which index?
    detail::compact(space_, elements, IsTie<Array>{array, state_}, LastTie{state_}, taken_);
    detail::compact(space_, elements, IsTaken<Array>{array, state_}, indices, count);
  }

 private:
  static constexpr std::size_t kDigits = 256;

  struct State {
    std::uint64_t key = 0;       // of the least that is taken: its digits so far
    std::uint64_t rest = 0;      // elements that are to be found among those with these digits
    std::uint64_t last_tie = 0;  // index of the last that is taken of those with this key
  };
  using Digits = Kokkos::View<std::uint64_t*, typename Space::memory_space>;
  using StateView = Kokkos::View<State, typename Space::memory_space>;

  struct Begin {
    StateView state;
    std::uint64_t k;
    KOKKOS_FUNCTION void operator()(std::uint64_t) const { state() = State{0, k, 0}; }
  };

  template <class Array, class Key>
  struct CountDigits {
    Array array;
    StateView state;
    Digits digits;
    unsigned shift;
    KOKKOS_FUNCTION void operator()(std::uint64_t i) const {
      const std::uint64_t key = detail::magnitude_key(array(i));
      const bool has_digits = shift + 8 >= 8 * sizeof(Key) || key >> (shift + 8) == state().key >> (shift + 8);
      if (key != 0 && has_digits) Kokkos::atomic_add(&digits(key >> shift & 255), std::uint64_t{1});
    }
  };

  // The digit of the least that is taken. Where all are fewer than k it is the lowest that there is.
  struct ChooseDigit {
    Digits digits;
    StateView state;
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

  template <class Array>
  struct IsTie {
    Array array;
    StateView state;
    KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
      return state().key != 0 && detail::magnitude_key(array(i)) == state().key;
    }
  };

  // Where the indices of ties would go: only the last one that is taken is kept.
  struct LastTie {
    StateView state;
    struct Place {
      StateView state;
      std::uint64_t number;
      KOKKOS_FUNCTION void operator=(std::uint64_t index) const {
        if (number + 1 <= state().rest) (void)Kokkos::atomic_fetch_max(&state().last_tie, index);
      }
    };
    KOKKOS_FUNCTION std::uint64_t extent(int) const { return ~std::uint64_t{0}; }
    KOKKOS_FUNCTION Place operator()(std::uint64_t number) const { return {state, number}; }
  };

  template <class Array>
  struct IsTaken {
    Array array;
    StateView state;
    KOKKOS_FUNCTION bool operator()(std::uint64_t i) const {
      const std::uint64_t key = detail::magnitude_key(array(i)), least = state().key;
      return least != 0 && state().rest != 0 && (key > least || (key == least && i <= state().last_tie));
    }
  };

  Space space_;
  Digits digits_;
  StateView state_;
  Count<Space> taken_;
};

}  // namespace sparcl::kokkos
