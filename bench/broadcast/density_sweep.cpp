// The sparse broadcast of one bf16 array at each density against MPI_Bcast of the same array, whole
// and in pieces of 1 MiB, and against the floor of what is guaranteed. One run, by turns; medians
// and quartiles of the ratios.
//   mpirun -n 2 --bind-to none bench_density [--mib 1 16 64] [--densities 0.01 0.5 1]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "floor.hpp"
#include "sparcl/sparcl.hpp"
#include "sparcl/sparcl_mpi.h"
#include "timed.hpp"
#include "workload.hpp"

namespace {

constexpr std::uint64_t kSeed = 20;

struct Options {
  std::vector<double> mib = {1, 16, 64};
  std::vector<double> densities = {0.01, 0.05, 0.2, 0.5, 1};
  int iterations = 15;
  bool json = false;
};

struct Quartiles {
  double low, median, high;
};
Quartiles quartiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {values[n / 4], values[n / 2], values[3 * n / 4]};
}

void bcast(std::uint16_t* weights, std::size_t count, std::size_t piece) {
  for (std::size_t at = 0; at < count; at += piece)
    MPI_Bcast(weights + at, static_cast<int>(std::min(piece, count - at)), MPI_UINT16_T, 0,
              MPI_COMM_WORLD);
}

// One size and density.
class Cell {
 public:
  Cell(double mib, double density, int rank, sparcl::Comm& comm)
      : mib_(mib),
        density_(density),
        rank_(rank),
        count_(static_cast<std::size_t>(mib * 0x1p19)),
        comm_(comm),
        work_(bench::make_workload(count_, density, kSeed, false, rank == 0)),
        dense_(bench::allocate_weights(count_)),
        log_(bench::allocate_weights(count_)) {
    std::copy_n(work_.a.get(), count_, dense_.get());
    std::memset(log_.get(), 0, 2 * count_);
  }

  void run(int iterations) {
    for (int i = 0; i < iterations + 2; ++i) {  // the first ones warm up
      const double whole = bench::timed([&] { bcast(dense_.get(), count_, count_); });
      const double ours = bench::timed([&] { delta(); });
      const double pieces =
          bench::timed([&] { bcast(dense_.get(), count_, std::size_t{1} << 19); });
      const double floor =
          bench::timed([&] { bench::pass_dense(rank_ == 0, words(dense_), words(log_)); });
      if (i < 2) continue;
      whole_.push_back(whole);
      pieces_.push_back(pieces);
      ours_.push_back(ours);
      floor_.push_back(floor);
    }
    int mine = rank_ == 0 || bench::holds(words(work_.a), work_, kSeed, at_b_) ? 1 : 0, all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    is_right_ = all == 1;
  }

  nlohmann::json row() const {
    const Quartiles whole = quartiles(whole_), pieces = quartiles(pieces_), ours = quartiles(ours_),
                    floor = quartiles(floor_);
    const std::vector<double>& best = pieces.median < whole.median ? pieces_ : whole_;
    std::vector<double> ratios, over_floor;
    for (std::size_t i = 0; i < ours_.size(); ++i) {
      ratios.push_back(ours_[i] / best[i]);
      over_floor.push_back(ours_[i] / std::max(best[i], floor_[i]));
    }
    const Quartiles ratio = quartiles(ratios), to_floor = quartiles(over_floor);
    const sparcl::Report report = comm_.report();
    return {{"op", "broadcast_delta"},
            {"ranks", comm_.size()},
            {"mib", mib_},
            {"density", density_},
            {"algorithm", report.algorithm},
            {"nnz", report.nnz_in},
            {"mpi_whole_ms", whole.median * 1e3},
            {"mpi_pieces_ms", pieces.median * 1e3},
            {"floor_ms", floor.median * 1e3},
            {"ours_ms", ours.median * 1e3},
            {"ours_low_ms", ours.low * 1e3},
            {"ours_high_ms", ours.high * 1e3},
            {"ratio", ratio.median},
            {"ratio_low", ratio.low},
            {"ratio_high", ratio.high},
            {"over_floor", to_floor.median},
            {"wrong", is_right_ ? 0 : 1}};
  }

 private:
  std::span<std::uint16_t> words(const bench::Weights& weights) const {
    return {weights.get(), count_};
  }
  void delta() {
    at_b_ = !at_b_;
    std::uint16_t* next = rank_ != 0 ? work_.a.get() : at_b_ ? work_.b.get() : work_.a.get();
    const std::uint16_t* base = rank_ != 0 ? nullptr : at_b_ ? work_.a.get() : work_.b.get();
    sparcl::check(
        sparclBroadcastDelta(next, base, count_, sparclBfloat16, 0, nullptr, comm_.get(), nullptr),
        comm_.get());
  }

  double mib_;
  double density_;
  int rank_;
  std::size_t count_;
  sparcl::Comm& comm_;
  bench::Workload work_;
  bench::Weights dense_, log_;
  bool at_b_ = false, is_right_ = false;
  std::vector<double> whole_, pieces_, ours_, floor_;
};

bool sweep(const Options& options, int rank) {
  sparcl::Comm comm = sparcl::Comm::mpi(MPI_COMM_WORLD);
  bool is_right = true;
  if (rank == 0 && !options.json)
    fmt::print("{:>5} {:>5} {:>8}  {:>9} {:>9} {:>9} {:>9}   {}\n", "ranks", "MiB", "changed",
               "MPI ms", "in MiB ms", "floor ms", "ours ms",
               "over MPI (quartiles), over the larger");
  for (const double mib : options.mib) {
    for (const double density : options.densities) {
      Cell cell(mib, density, rank, comm);
      cell.run(options.iterations);
      const nlohmann::json row = cell.row();
      is_right = is_right && row["wrong"] == 0;
      if (rank != 0) continue;
      if (options.json) {
        std::cout << row.dump() << std::endl;
      } else {
        const auto value = [&](const char* key) { return row[key].get<double>(); };
        fmt::print(
            "{:>5} {:>5} {:>7.3g}%  {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}   {:.2f} ({:.2f}-{:.2f}), "
            "{:.2f}{}\n",
            comm.size(), mib, 100 * density, value("mpi_whole_ms"), value("mpi_pieces_ms"),
            value("floor_ms"), value("ours_ms"), value("ratio"), value("ratio_low"),
            value("ratio_high"), value("over_floor"), row["wrong"] == 0 ? "" : "  WRONG");
        std::cout.flush();
      }
    }
  }
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  CLI::App app("Broadcasts at each density against MPI_Bcast and their floor");
  app.add_option("--mib", options.mib, "sizes of the array")->check(CLI::Range(0.001, 4096.0));
  app.add_option("--densities", options.densities, "shares of elements that change")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--iterations", options.iterations, "timed repetitions")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "one line of JSON a cell");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = rank == 0 ? app.exit(error) : error.get_exit_code();
    MPI_Finalize();
    return code == 0 ? 0 : 2;
  }
  bool is_right = false;
  try {
    is_right = sweep(options, rank);
  } catch (const sparcl::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return is_right ? 0 : 1;
}
