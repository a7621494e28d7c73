#pragma once
// Views of what tests have in vectors.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sparcl/kokkos_kernels.hpp"

namespace sparcl::test {

using Space = Kokkos::DefaultExecutionSpace;
template <class T>
using Array = Kokkos::View<T*, Space>;
using Indices = Array<std::uint64_t>;

template <class T>
Array<T> to_view(const std::vector<T>& from) {
  Array<T> view("elements", from.size());
  const Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(from.data(),
                                                                                from.size());
  Kokkos::deep_copy(view, host);
  return view;
}
template <class T>
std::vector<T> to_vector(const Array<T>& view, std::size_t count = SIZE_MAX) {
  std::vector<T> all(view.extent(0));
  Kokkos::deep_copy(
      Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(all.data(), all.size()), view);
  all.resize(std::min(count, all.size()));
  return all;
}
inline std::uint64_t number(const kokkos::Count<Space>& count) {
  std::uint64_t value = 0;
  Kokkos::deep_copy(value, count);
  return value;
}

}  // namespace sparcl::test
