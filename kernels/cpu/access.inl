// Part of cpu_kernels.cpp, compiled once for each instruction set. These are plain loops: gathers
// of 16 bits have no instruction, and gathers of 32 and 64 bits are no faster than scalar loads.
// The number of cache lines in flight decides the speed. AMD's cores drop a prefetch that finds no
// free miss register, so prefetching a whole block at once is useless. A prefetch that stays
// kLookahead elements ahead takes 1.8 ms for 1 % of 2^26 bf16, against 3.0 ms without (32: 2.4, 64:
// 2.0, 256: 1.9, a whole block: 2.1).
constexpr std::size_t kLookahead = 128;

HWY_INLINE void prefetch(const std::byte* array, std::uint16_t position, std::uint32_t first,
                         std::size_t width) {
  __builtin_prefetch(array + (position - first) * width);
}

// Calls visit(i) for all i < count, and prefetches kLookahead elements ahead of it.
template <std::size_t kWidth, class Visit>
HWY_INLINE void for_each_ahead(const std::byte* array, const std::uint16_t* positions,
                               std::size_t count, std::uint32_t first, const Upcoming& next,
                               Visit visit) {
  const std::size_t own = count > kLookahead
                              ? count - kLookahead
                              : 0;  // elements with kLookahead more after them in this call
  std::size_t i = 0;
  for (; i < own; ++i) {
    prefetch(array, positions[i + kLookahead], first, kWidth);
    visit(i);
  }
  const std::size_t left = count - own;
  const std::size_t both = left < next.count ? left : next.count;
  for (std::size_t j = 0; j < both; ++j, ++i) {
    prefetch(next.array, next.positions[j], next.first, kWidth);
    visit(i);
  }
  for (std::size_t j = both; j < next.count && j < kLookahead; ++j)
    prefetch(next.array, next.positions[j], next.first, kWidth);
  for (; i < count; ++i) visit(i);
}

template <class T>
HWY_INLINE T load_one(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class T>
void gather(const std::byte* array, const std::uint16_t* positions, std::size_t count,
            std::uint32_t first, std::byte* values, const Upcoming& next) {
  for_each_ahead<sizeof(T)>(array, positions, count, first, next, [=](std::size_t i) HWY_ATTR {
    std::memcpy(values + i * sizeof(T), array + (positions[i] - first) * sizeof(T), sizeof(T));
  });
}

template <class T>
void scatter(std::byte* array, const std::uint16_t* positions, std::size_t count,
             std::uint32_t first, const std::byte* values, const Upcoming& next) {
  for_each_ahead<sizeof(T)>(array, positions, count, first, next, [=](std::size_t i) HWY_ATTR {
    std::memcpy(array + (positions[i] - first) * sizeof(T), values + i * sizeof(T), sizeof(T));
  });
}

template <class T>
void exchange(std::byte* array, const std::uint16_t* positions, std::size_t count,
              std::uint32_t first, std::byte* values, const Upcoming& next) {
  for_each_ahead<sizeof(T)>(array, positions, count, first, next, [=](std::size_t i) HWY_ATTR {
    std::byte* at = array + (positions[i] - first) * sizeof(T);
    const T held = load_one<T>(at);
    std::memcpy(at, values + i * sizeof(T), sizeof(T));
    std::memcpy(values + i * sizeof(T), &held, sizeof held);
  });
}

// Without branches: signs are not predictable.
template <class T, bool kFloat>
HWY_INLINE T add_step(T value, T step) {
  if constexpr (!kFloat) return static_cast<T>(value + step);
  constexpr T kSign = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  constexpr int kShift = 8 * sizeof(T) - 1;
  const T negative = static_cast<T>(T{0} - (value >> kShift));  // all ones, or zero
  const T order = static_cast<T>((value ^ (negative | kSign)) + step);
  const T below_zero = static_cast<T>((order >> kShift) - T{1});
  return static_cast<T>(order ^ (below_zero | kSign));
}

template <class T, bool kFloat>
void add_steps_at(std::byte* array, const std::uint16_t* positions, std::size_t count,
                  std::uint32_t first, const std::byte* steps, const Upcoming& next) {
  for_each_ahead<sizeof(T)>(array, positions, count, first, next, [=](std::size_t i) HWY_ATTR {
    std::byte* at = array + (positions[i] - first) * sizeof(T);
    const T value = add_step<T, kFloat>(load_one<T>(at), load_one<T>(steps + i * sizeof(T)));
    std::memcpy(at, &value, sizeof value);
  });
}
