// Latency and bandwidth between two ranks: the transports against MPI and UCX as they come, by
// turns in one run.
//   mpirun -n 2 bench_transport --help

#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/transport/links.hpp"
#include "src/transport/mpi/mpi_gather.hpp"
#include "src/transport/mpi/mpi_transport.hpp"
#include "src/transport/ucx/ucx_transport.hpp"

namespace sparcl::bench {
namespace {

struct Options {
  std::vector<std::size_t> sizes{
      8, 1024, 65536, std::size_t{1} << 20, std::size_t{8} << 20, std::size_t{64} << 20};
  int rounds = 11;
  bool json = false;
};

constexpr std::size_t kWindow = 8;  // messages in flight, one way

// Seconds of half a round trip.
double ping_pong(Link& link, int rank, const Buffer& out, const Buffer& in, int times) {
  const double begin = MPI_Wtime();
  for (int i = 0; i < times; ++i) {
    if (rank == 0) {
      link.send(out);
      link.receive(in);
      link.wait();
    } else {
      link.receive(in);
      link.wait();
      link.send(out);
      link.wait();
    }
  }
  return (MPI_Wtime() - begin) / (2 * times);
}

// Seconds a message of a window that flows from rank 0 to rank 1, which answers at its end.
double stream(Link& link, int rank, const std::vector<Buffer>& window, const Buffer& answer,
              int times) {
  const double begin = MPI_Wtime();
  for (int i = 0; i < times; ++i) {
    for (const Buffer& each : window) rank == 0 ? link.send(each) : link.receive(each);
    if (rank == 0) link.receive(answer);
    link.wait();
    if (rank == 1) link.send(answer);
    link.wait();
  }
  return (MPI_Wtime() - begin) / (times * static_cast<double>(window.size()));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

struct Row {
  std::string what;
  std::size_t bytes;
  std::map<std::string, std::vector<double>> seconds;  // by link
};

void print(const Row& row, const Options& options) {
  double best = 1e99;
  for (const auto& [name, seconds] : row.seconds) {
    if (name.starts_with("sparcl")) continue;
    best = std::min(best, median(seconds));
  }
  for (const auto& [name, seconds] : row.seconds) {
    std::vector<double> ratios;  // within a round, in which a disturbance affects all
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      double peer = 1e99;
      for (const auto& [other, theirs] : row.seconds) {
        if (!other.starts_with("sparcl")) peer = std::min(peer, theirs[i]);
      }
      ratios.push_back(peer / seconds[i]);
    }
    const double own = median(seconds);
    if (options.json) {
      const nlohmann::json line = {{"what", row.what},
                                   {"bytes", row.bytes},
                                   {"link", name},
                                   {"time_us_median", own * 1e6},
                                   {"gbyte_s", row.bytes / own / 1e9},
                                   {"of_best_peer", median(ratios)}};
      std::printf("%s\n", line.dump().c_str());
    } else {
      fmt::print("{:<10} {:>10} {:<20} {:>12.3f} {:>10.3f} {:>10.2f}\n", row.what, row.bytes, name,
                 own * 1e6, row.bytes / own / 1e9, median(ratios));
    }
  }
}

std::vector<std::unique_ptr<Link>> make_links(int rank) {
  std::vector<std::unique_ptr<Link>> links;
  links.push_back(make_mpi_link(1 - rank));
  links.push_back(make_ucp_link(rank));
  auto mpi = transport::MpiTransport::create(MPI_COMM_WORLD);
  auto ucx = transport::UcxTransport::create(rank, 2, [](std::span<const std::byte> own) {
    return transport::mpi_gather(MPI_COMM_WORLD, own);
  });
  if (mpi.ok()) links.push_back(make_transport_link("sparcl mpi", std::move(*mpi), 1 - rank));
  if (ucx.ok()) links.push_back(make_transport_link("sparcl ucx", std::move(*ucx), 1 - rank));
  return links;
}

void run(const Options& options, int rank) {
  const std::vector<std::unique_ptr<Link>> links = make_links(rank);
  if (rank == 0 && !options.json) {
    fmt::print("{:<10} {:>10} {:<20} {:>12} {:>10} {:>10}\n", "what", "bytes", "link", "us", "GB/s",
               "of best");
  }
  for (const std::size_t bytes : options.sizes) {
    const Buffer in = Buffer::allocate(bytes), out = Buffer::allocate(bytes),
                 answer = Buffer::allocate(8);
    std::vector<Buffer> window;
    for (std::size_t i = 0; i < kWindow; ++i) window.push_back(Buffer::allocate(bytes));
    std::fill(out.bytes().begin(), out.bytes().end(), std::byte{1});
    for (const Buffer& each : window)
      std::fill(each.bytes().begin(), each.bytes().end(), std::byte{2});
    const int times = static_cast<int>(
        std::clamp<std::size_t>((std::size_t{64} << 20) / (bytes + 4096), 1, 2000));
    Row latency{"ping-pong", bytes, {}}, bandwidth{"stream", bytes, {}};
    for (int round = -1; round < options.rounds; ++round) {  // the first warms up
      for (const auto& link : links) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double half_trip = ping_pong(*link, rank, out, in, times);
        MPI_Barrier(MPI_COMM_WORLD);
        const double message =
            stream(*link, rank, window, answer, std::max(1, times / static_cast<int>(kWindow)));
        if (round < 0) continue;
        latency.seconds[link->name()].push_back(half_trip);
        bandwidth.seconds[link->name()].push_back(message);
      }
    }
    if (rank == 0) {
      print(latency, options);
      print(bandwidth, options);
    }
  }
}

}  // namespace
}  // namespace sparcl::bench

int main(int argc, char** argv) {
  sparcl::bench::Options options;
  CLI::App app(
      "Latency and bandwidth between two ranks: the transports against MPI and UCX as they come");
  app.add_option("--sizes", options.sizes, "bytes of a message")->capture_default_str();
  app.add_option("--rounds", options.rounds, "timed rounds of each")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.json, "JSON lines");
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    if (rank == 0)
      std::fprintf(stderr, "bench_transport: takes two ranks: mpirun -n 2 bench_transport\n");
    MPI_Finalize();
    return 2;
  }
  sparcl::bench::run(options, rank);
  MPI_Finalize();
  return 0;
}
