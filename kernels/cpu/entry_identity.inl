// Part of cpu_kernels.cpp, compiled once for each instruction set. Absent elements contain the
// operation's identity, so no code checks whether an element is present: entries are added
// unconditionally, windows are folded as arrays. Sums of floats need no presence bits: their
// identity is -0. A sum of present values is never -0, because values of -0 are added as +0.

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
