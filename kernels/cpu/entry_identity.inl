// Part of cpu_kernels.cpp, compiled once for each instruction set. Absent elements hold the
// operation's identity, so that nothing asks whether an element is there: entries are added
// blindly, windows are folded as arrays. A float's sum needs no bits of what is present either: its
// identity, -0, is the sum of nothing else, as values of -0 are added as +0.

template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T, ReduceOp kOp>
constexpr T identity_of() {
  if constexpr (kOp == ReduceOp::kProd) return T{1};
  if constexpr (kOp == ReduceOp::kSum) return kIsFloat<T> ? static_cast<T>(-0.0) : T{0};
  constexpr bool kIsMax = kOp == ReduceOp::kMax;
  if constexpr (kIsFloat<T>)
    return kIsMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  return kIsMax ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}

template <class T, ReduceOp kOp>
constexpr bool kKnowsByValue = kIsFloat<T>&& kOp == ReduceOp::kSum;
