// Least squares on ranks that each hold samples, in the memory for which Kokkos was built. In each
// step a rank sends the largest 1 % of its gradient and of the residual of earlier steps.
// Selection, error feedback and the step are Kokkos kernels, and only the sent entries leave the
// device:
//   mpirun -n 4 kokkos_regression
#include <mpi.h>
#include <sparcl/sparcl_mpi.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <sparcl/sparcl_kokkos.hpp>

namespace {

using Space = Kokkos::DefaultExecutionSpace;
using Vector = Kokkos::View<double*, Space>;
using Matrix = Kokkos::View<double**, Kokkos::LayoutRight, Space>;

constexpr std::uint64_t kFeatures = 1024, kSamples = 2048, kBatch = 64, kSent = kFeatures / 100;
constexpr int kSteps = 600;
constexpr double kRate = 0.001;

// A number in [-1, 1) for an index, the same wherever it is computed.
KOKKOS_INLINE_FUNCTION double noise(std::uint64_t place) {
  place = (place + 1) * 0x9e3779b97f4a7c15U;
  place = (place ^ (place >> 30)) * 0xbf58476d1ce4e5b9U;
  place = (place ^ (place >> 27)) * 0x94d049bb133111ebU;
  return static_cast<double>(static_cast<std::int64_t>(place ^ (place >> 31))) /
         9223372036854775808.0;
}

// The weights to find: one of 64 is not 0.
KOKKOS_INLINE_FUNCTION double true_weight(std::uint64_t i) { return i % 64 == 7 ? noise(i) : 0; }

struct Samples {
  Matrix features{"features", kSamples, kFeatures};
  Vector targets{"targets", kSamples};
};

// In a function, not a constructor: nvcc requires it for lambdas.
Samples make_samples(const Space& space, int rank) {
  const Samples samples;
  const Matrix x = samples.features;
  const Vector y = samples.targets;
  const std::uint64_t first = (static_cast<std::uint64_t>(rank) + 1) << 32;
  Kokkos::parallel_for(
      "samples", Kokkos::RangePolicy<Space>(space, 0, kSamples),
      KOKKOS_LAMBDA(std::uint64_t sample) {
        double sum = 0;
        for (std::uint64_t i = 0; i < kFeatures; ++i) {
          x(sample, i) = noise(first + sample * kFeatures + i);
          sum += x(sample, i) * true_weight(i);
        }
        y(sample) = sum;
      });
  return samples;
}

// Half the gradient of the batch's squared errors.
void compute_gradient(const Space& space, const Samples& samples, int step, const Vector& weights,
                      const Vector& errors, const Vector& gradient) {
  const Matrix x = samples.features;
  const Vector y = samples.targets;
  const std::uint64_t first = static_cast<std::uint64_t>(step) * kBatch % kSamples;
  Kokkos::parallel_for(
      "errors", Kokkos::RangePolicy<Space>(space, 0, kBatch), KOKKOS_LAMBDA(std::uint64_t row) {
        double error = -y(first + row);
        for (std::uint64_t i = 0; i < kFeatures; ++i) error += x(first + row, i) * weights(i);
        errors(row) = error;
      });
  Kokkos::parallel_for(
      "gradient", Kokkos::RangePolicy<Space>(space, 0, kFeatures), KOKKOS_LAMBDA(std::uint64_t i) {
        double sum = 0;
        for (std::uint64_t row = 0; row < kBatch; ++row) sum += errors(row) * x(first + row, i);
        gradient(i) = sum;
      });
}

// Root of the mean square error of the weights, relative to their mean square: 1 at the start.
double distance(const Space& space, const Vector& weights) {
  double missing = 0, all = 0;
  Kokkos::parallel_reduce(
      "distance", Kokkos::RangePolicy<Space>(space, 0, kFeatures),
      KOKKOS_LAMBDA(std::uint64_t i, double& sum, double& total) {
        const double miss = weights(i) - true_weight(i);
        sum += miss * miss;
        total += true_weight(i) * true_weight(i);
      },
      missing, all);
  return std::sqrt(missing / all);
}

// Top-k with error feedback, wholly on the device. The result is in `sums` at `places`, and its
// length is returned.
class TopKExchange {
 public:
  TopKExchange(const Space& space, int ranks)
      : space_(space),
        top_k_(space),
        sums("sums", kSent * static_cast<std::uint64_t>(ranks)),
        places("places", sums.extent(0)) {}

  std::uint64_t run(sparcl::Comm& comm, const Vector& gradient) {
    sparcl::kokkos::accumulate(space_, gradient, residual_);
    top_k_.find(residual_, kSent, chosen_, count_);
    sparcl::kokkos::gather(space_, residual_, chosen_, count_, values_);
    sparcl::kokkos::clear_sent(space_, chosen_, count_, residual_);
    const std::uint64_t sent = sparcl::kokkos::wait_for(space_, count_);
    return sparcl::kokkos::all_reduce_sparse(space_, comm, values_, chosen_, sent, kFeatures, sums,
                                             places);
  }

 private:
  Space space_;
  sparcl::kokkos::TopK<Space> top_k_;
  Vector residual_{"residual", kFeatures}, values_{"values", kSent};
  Kokkos::View<std::uint64_t*, Space> chosen_{"chosen", kSent};
  sparcl::kokkos::Count<Space> count_{"count"};

 public:
  Vector sums;
  Kokkos::View<std::uint64_t*, Space> places;
};

struct Outcome {
  double distance = 0, bytes_a_step = 0;
};

Outcome train(const Space& space, sparcl::Comm& comm, bool is_sparse) {
  const Samples samples = make_samples(space, comm.rank());
  const Vector weights("weights", kFeatures), errors("errors", kBatch),
      gradient("gradient", kFeatures);
  const sparcl::Mask all = sparcl::Mask::random(kFeatures, 1, 0);
  TopKExchange exchange(space, comm.size());
  const double rate = kRate / comm.size();
  std::uint64_t bytes = 0;
  for (int step = 0; step < kSteps; ++step) {
    compute_gradient(space, samples, step, weights, errors, gradient);
    if (is_sparse) {
      const std::uint64_t found = exchange.run(comm, gradient);
      const Vector sums = exchange.sums;
      const auto places = exchange.places;
      Kokkos::parallel_for(
          "step", Kokkos::RangePolicy<Space>(space, 0, found),
          KOKKOS_LAMBDA(std::uint64_t i) { weights(places(i)) -= rate * sums(i); });
    } else {
      sparcl::kokkos::all_reduce_masked(space, comm, gradient, gradient,
                                        all);  // in place: the mask has all elements
      Kokkos::parallel_for(
          "step", Kokkos::RangePolicy<Space>(space, 0, kFeatures),
          KOKKOS_LAMBDA(std::uint64_t i) { weights(i) -= rate * gradient(i); });
    }
    bytes += comm.report().bytes_sent;
  }
  return {distance(space, weights), static_cast<double>(bytes) / kSteps};
}

void run() {
  const Space space;
  sparcl::Comm comm = sparcl::Comm::mpi(MPI_COMM_WORLD);
  const Outcome dense = train(space, comm, false), sparse = train(space, comm, true);
  if (comm.rank() != 0) return;
  std::printf("%s, %d ranks, %llu features, %d steps\n", Space::name(), comm.size(),
              static_cast<unsigned long long>(kFeatures), kSteps);
  std::printf("%-28s %20s %22s\n", "gradients", "error of the weights", "bytes rank 0 sent/step");
  std::printf("%-28s %19.2f%% %22.0f\n", "all", 100 * dense.distance, dense.bytes_a_step);
  std::printf("%-28s %19.2f%% %22.0f\n", "largest 1 % with feedback", 100 * sparse.distance,
              sparse.bytes_a_step);
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads);
  int status = 0;
  try {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    run();
  } catch (const sparcl::Error& error) {
    std::fprintf(stderr, "kokkos_regression: %s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
