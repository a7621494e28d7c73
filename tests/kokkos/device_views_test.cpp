// Calls on views in device memory: what Kokkos' Cuda gets, from a space with a stream, over a
// stand-in for the driver whose memory the host cannot touch.

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "sparcl/sparcl_kokkos.hpp"
#include "tests/fakes/driver/fake_driver.hpp"
#include "tests/kokkos/ranks.hpp"

namespace sparcl::test {
namespace {

std::atomic<int> fences = 0;

// As Kokkos::Cuda: an instance has a stream. A fence would bring the stream to its end before the
// call.
struct Gpu : Kokkos::Serial {
  explicit Gpu(int number)
      : stream(
            reinterpret_cast<sparclStream_t>(static_cast<std::uintptr_t>(0x1000 * (number + 1)))) {}
  void fence() const { ++fences; }
  sparclStream_t stream;
};

}  // namespace
}  // namespace sparcl::test

template <>
struct sparcl::kokkos::detail::DeviceMemory<sparcl::test::Gpu, Kokkos::HostSpace> {
  static constexpr bool is_taken = true;
  static sparclStream_t stream(const test::Gpu& gpu) { return gpu.stream; }
};

namespace sparcl::test {
namespace {

static_assert(kokkos::detail::access_of<Gpu, Kokkos::View<float*, Kokkos::HostSpace>>() ==
              kokkos::detail::Access::kDevice);
static_assert(
    kokkos::detail::access_of<Kokkos::Serial, Kokkos::View<float*, Kokkos::HostSpace>>() ==
    kokkos::detail::Access::kHost);

template <class T>
using DeviceView = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

// A view of device memory; what is to be in it comes to be there in the stream's order, and not
// before somebody waits for it.
template <class T>
DeviceView<T> on_device(const Gpu& gpu, const std::vector<T>& values) {
  const FakeDeviceMemory memory = fake_device_memory(values.size() * sizeof(T) + 1);
  enqueue(gpu.stream, [memory, values] {
    std::memcpy(memory.bytes, values.data(), values.size() * sizeof(T));
  });
  return DeviceView<T>(static_cast<T*>(memory.device), values.size());
}
template <class T>
std::vector<T> read(const DeviceView<T>& view) {
  const T* const begin = static_cast<const T*>(reachable(view.data()));
  return {begin, begin + view.extent(0)};
}

struct KokkosOnDevice : ::testing::Test {
  void SetUp() override { fences = 0; }
  void TearDown() override { EXPECT_EQ(fences, 0); }
};

TEST_F(KokkosOnDevice, MaskedSums) {
  on_ranks(3, [](Comm& comm) {
    const Gpu gpu(comm.rank());
    const Mask mask = Mask::random(kCount, 0.1, 3);
    std::vector<float> expected = values_of(9), in_place = values_of(comm.rank());
    comm.all_reduce_masked<float>(values_of(comm.rank()), expected, mask);
    comm.all_reduce_masked<float>(in_place, in_place, mask);
    const DeviceView<float> from = on_device(gpu, values_of(comm.rank())),
                            to = on_device(gpu, values_of(9));
    kokkos::all_reduce_masked(
        gpu, comm, Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(from), to,
        mask);
    EXPECT_EQ(read(to), expected);
    EXPECT_EQ(read(from), values_of(comm.rank()));
    kokkos::all_reduce_masked(gpu, comm, from, from, mask);
    EXPECT_EQ(read(from), in_place);
  });
}

TEST_F(KokkosOnDevice, TopKWithFeedback) {
  on_ranks(2, [](Comm& comm) {
    const Gpu gpu(comm.rank());
    Feedback feedback = Feedback::of<float>(kCount), own = Feedback::of<float>(kCount);
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> sent = values_of(comm.rank() + step);
      std::vector<float> expected(kCount);
      comm.all_reduce_top_k<float>(sent, expected, 100, &feedback);
      const DeviceView<float> from = on_device(gpu, sent), to = on_device(gpu, values_of(9));
      kokkos::all_reduce_top_k(gpu, comm, from, to, 100, &own);
      EXPECT_EQ(read(to), expected);
    }
  });
}

// Room is left as it was behind what the sum has; a rank without entries, and one without anything.
TEST_F(KokkosOnDevice, SparseSums) {
  on_ranks(3, [](Comm& comm) {
    const Gpu gpu(comm.rank());
    const auto own = static_cast<std::uint64_t>(comm.rank());
    const std::size_t nnz = comm.rank() == 2 ? 0 : 2;
    const DeviceView<double> values = on_device<double>(gpu, {1.5, 2.5}),
                             sums = on_device(gpu, std::vector<double>(5, -1));
    const DeviceView<std::uint64_t> indices = on_device<std::uint64_t>(gpu, {7, 10 + own}),
                                    places = on_device(gpu, std::vector<std::uint64_t>(5, 99));
    ASSERT_EQ(kokkos::all_reduce_sparse(gpu, comm, values, indices, nnz, kCount, sums, places), 3U);
    EXPECT_EQ(read(sums), (std::vector<double>{3, 2.5, 2.5, -1, -1}));
    EXPECT_EQ(read(places), (std::vector<std::uint64_t>{7, 10, 11, 99, 99}));
    const DeviceView<double> no_sums;
    const DeviceView<std::uint64_t> nowhere;
    EXPECT_EQ(kokkos::all_reduce_sparse(gpu, comm, values, indices, 0, kCount, no_sums, nowhere),
              0U);
  });
}

TEST_F(KokkosOnDevice, BroadcastsOfWhatHasChanged) {
  on_ranks(3, [](Comm& comm) {
    const Gpu gpu(comm.rank());
    std::vector<float> target = values_of(0);
    target[3] = 9;
    target[kCount - 1] = -0.0F;
    const DeviceView<float> weights = on_device(gpu, comm.rank() == 1 ? target : values_of(0)),
                            none;
    const DeviceView<float> base = comm.rank() == 1 ? on_device(gpu, values_of(0)) : none;
    kokkos::broadcast_delta(gpu, comm, weights, base, 1);
    EXPECT_EQ(read(weights), target);
    kokkos::broadcast_delta(gpu, comm, none, none, 1);
  });
}

// Views that the host reaches, of an instance whose memory is taken: a fence, and no stream.
TEST(KokkosAccess, ViewsOfTheHostAreFenced) {
  fences = 0;
  const Gpu gpu(0);
  std::vector<float> values = values_of(0);
  using View = Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
  const View view(values.data(), values.size());
  const kokkos::detail::Argument<Gpu, View, kokkos::detail::Access::kHost> argument(gpu, view);
  EXPECT_EQ(argument.data(), values.data());
  EXPECT_EQ(argument.stream(), nullptr);
  EXPECT_EQ(fences, 1);
  const kokkos::detail::Argument<Gpu, View, kokkos::detail::Access::kDevice> other(gpu, view),
      none(gpu, View());
  EXPECT_EQ(other.stream(), gpu.stream);
  EXPECT_EQ(none.stream(), nullptr);
  EXPECT_EQ(kokkos::detail::stream_of(argument, none, other), gpu.stream);
  EXPECT_EQ(fences, 1);
}

}  // namespace
}  // namespace sparcl::test
