// The cost of the agreement on a call in a sparse broadcast. Three variants with the same stream
// and vote: without the agreement, with it beside the root's encoding (as the library does), and
// with it before. In addition the agreement alone beside MPI_Barrier. Variants take turns in one
// run; medians.
//   mpirun -n 4 bench_agreement --transport ucx

#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/agreement/bare_broadcast.hpp"
#include "src/comm/agreement/ballot.hpp"
#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/mpi/mpi_transport.hpp"
#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl::bench {
namespace {

struct Options {
  std::vector<std::size_t> counts{1, 65'536, 1'048'576, 16'777'216};
  double density = 0.01;
  int rounds = 21;
  std::string transport = "mpi";
  bool json = false;
};

constexpr double kSecondsPerRound =
    0.004;  // of each variant: long against the clock, short against disturbances

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench_agreement: %s\n", why.c_str());
  MPI_Abort(MPI_COMM_WORLD, 1);
  std::abort();
}

std::unique_ptr<transport::Transport> make_transport(const std::string& name, int rank, int ranks) {
  if (name == "ucx") {
    auto ucx = transport::UcxTransport::create(rank, ranks, [](std::span<const std::byte> own) {
      return transport::mpi_gather(MPI_COMM_WORLD, own);
    });
    if (!ucx.ok()) give_up(ucx.status().message());
    return std::move(*ucx);
  }
  auto mpi = transport::MpiTransport::create(MPI_COMM_WORLD);
  if (!mpi.ok()) give_up(mpi.status().message());
  return std::move(*mpi);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const Options& options, int rank, int ranks)
      : options_(options),
        rank_(rank),
        ranks_(ranks),
        transport_(make_transport(options.transport, rank, ranks)),
        engine_(*transport_, 60) {
    comm_.engine = &engine_;
    comm_.kernels = &kernels::cpu_kernels();
  }

  void run() {
    round_alone();
    for (const std::size_t count : options_.counts) one_count(count);
  }

 private:
  // Seconds a call, of `calls` in sequence, on the slowest rank.
  double seconds(int calls, const std::function<void()>& call) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    for (int i = 0; i < calls; ++i) call();
    double mine = (MPI_Wtime() - begin) / calls, slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  // Medians of all variants, which take turns.
  std::vector<double> measure(const std::vector<std::function<void()>>& variants) {
    std::vector<std::vector<double>> seen(variants.size());
    std::vector<int> calls(variants.size(), 1);
    for (int round = -1; round < options_.rounds;
         ++round) {  // the first warms up, and sets how many make a round
      for (std::size_t i = 0; i < variants.size(); ++i) {
        const double each = seconds(round < 0 ? 5 : calls[i], variants[i]);
        if (round >= 0) seen[i].push_back(each);
        calls[i] = round < 0 ? static_cast<int>(std::clamp(kSecondsPerRound / each, 1.0, 1000.0))
                             : calls[i];
      }
    }
    std::vector<double> medians;
    for (const std::vector<double>& each : seen) medians.push_back(median(each));
    return medians;
  }

  void finish(comm::Task& task) {
    engine_.run(task);
    if (!task.result().ok()) give_up(task.result().message());
  }

  void round_alone() {
    const std::vector<double> medians = measure({
        [] { MPI_Barrier(MPI_COMM_WORLD); },
        [this] {
          Status verdict;
          const std::uint32_t number = next_++;
          comm::Task round = comm::agree(engine_, {number, 0}, {}, Status(), verdict);
          finish(round);
          transport_->close({number, 0});
        },
    });
    const int messages = std::bit_width(static_cast<unsigned>(ranks_ - 1));
    if (rank_ != 0) return;
    if (options_.json) {
      const nlohmann::json row{{"what", "round"},
                               {"ranks", ranks_},
                               {"transport", options_.transport},
                               {"time_us_median", medians[1] * 1e6},
                               {"barrier_us_median", medians[0] * 1e6},
                               {"bytes_sent", messages * static_cast<int>(comm::kBallotBytes)}};
      std::printf("%s\n", row.dump().c_str());
      return;
    }
    fmt::print(
        "{} ranks over {}: the round alone {:.1f} us (MPI_Barrier {:.1f}), {} messages of {} bytes "
        "sent by each rank\n",
        ranks_, options_.transport, medians[1] * 1e6, medians[0] * 1e6, messages,
        comm::kBallotBytes);
    fmt::print("{:>12} {:>12} {:>14} {:>14} {:>14} {:>10}\n", "elements", "bytes", "without us",
               "overlapped us", "before us", "share");
  }

  void one_count(std::size_t count) {
    Flip flip(count, options_.density, rank_ == 0);
    std::vector<std::function<void()>> variants;
    for (const Agreement agreement : {Agreement::kNone, Agreement::kOverlap, Agreement::kBefore}) {
      variants.push_back([this, &flip, agreement] {
        comm::Task call = flip.broadcast(comm_, next_++, agreement);
        finish(call);
      });
    }
    const std::vector<double> medians = measure(variants);
    if (!flip.is_right()) give_up("a replica holds something else");
    if (rank_ != 0) return;
    const double share = medians[1] / medians[0] - 1;
    if (options_.json) {
      const nlohmann::json row{{"what", "broadcast"},
                               {"ranks", ranks_},
                               {"transport", options_.transport},
                               {"count", count},
                               {"density", options_.density},
                               {"bytes_bound", flip.stream_bytes()},
                               {"without_us_median", medians[0] * 1e6},
                               {"overlapped_us_median", medians[1] * 1e6},
                               {"before_us_median", medians[2] * 1e6},
                               {"share", share}};
      std::printf("%s\n", row.dump().c_str());
      return;
    }
    fmt::print("{:>12} {:>12} {:>14.1f} {:>14.1f} {:>14.1f} {:>9.1f}%\n", count,
               flip.stream_bytes(), medians[0] * 1e6, medians[1] * 1e6, medians[2] * 1e6,
               share * 100);
  }

  Options options_;
  int rank_, ranks_;
  std::unique_ptr<transport::Transport> transport_;
  comm::Engine engine_;
  comm::CommContext comm_;
  std::uint32_t next_ = 0;
};

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) {
  sparcl::bench::Options options;
  CLI::App app("The cost of the agreement on a call in a sparse broadcast");
  app.add_option("--counts", options.counts, "elements (bf16)")->capture_default_str();
  app.add_option("--density", options.density, "share of elements that change")
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "timed rounds of each variant")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--transport", options.transport, "mpi or ucx")
      ->capture_default_str()
      ->check(CLI::IsMember({"mpi", "ucx"}));
  app.add_flag("--json", options.json, "JSON lines");
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  sparcl::bench::Bench(options, rank, ranks).run();
  MPI_Finalize();
  return 0;
}
