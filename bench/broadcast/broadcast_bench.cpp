// The sparse broadcast of one bf16 (or fp32) array against MPI_Bcast of the same array and against
// its own floor: one run, interleaved, medians.
//   mpirun -n 4 --bind-to none bench_broadcast --count 134217728 --density 0.01
#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
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
  std::size_t count = std::size_t{128} << 20;
  double density = 0.01;
  int iterations = 11;
  bool pin_root = false;
  bool json = false;
  bool clustered = false;
  std::string mode = "delta";
  std::string dtype = "bf16";

  std::size_t stride() const { return dtype == "bf16" ? 1 : 2; }  // words of 16 bits an element
  sparclDataType_t datatype() const { return dtype == "bf16" ? sparclBfloat16 : sparclFloat32; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(core), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

void bcast_dense(std::uint16_t* weights, std::size_t count) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // MPI counts are int
  for (std::size_t at = 0; at < count; at += kPiece) {
    MPI_Bcast(weights + at, static_cast<int>(std::min(kPiece, count - at)), MPI_UINT16_T, 0,
              MPI_COMM_WORLD);
  }
}

class Bench {
 public:
  Bench(const Options& options, int rank)
      : options_(options),
        rank_(rank),
        work_(bench::make_workload(options.count, options.density, kSeed, options.clustered,
                                   rank == 0, options.stride())),
        comm_(sparcl::Comm::mpi(MPI_COMM_WORLD)) {
    if (options.mode != "delta") {
      held_ = bench::allocate_weights(options.count);
      std::copy_n(work_.a.get(), options.count, held_.get());
      state_.add("weights", held_.get(), options.datatype(), {options.count / options.stride()});
      comm_.broadcast_update(state_, 1, 0);
    }
    if (rank == 0) {  // dense traffic goes through an array of its own, so that caches are as cold
                      // as in use
      dense_ = bench::allocate_weights(options.count);
      std::copy_n(work_.a.get(), options.count, dense_.get());
    } else {
      dense_ = bench::allocate_weights(options.count);
    }
  }

  void run() {
    for (int i = 0; i < options_.iterations + 1; ++i) {  // the first warms up
      const double dense = bench::timed([&] { bcast_dense(dense_.get(), options_.count); });
      const double read = bench::timed([&] {
        if (rank_ == 0 && options_.mode == "delta")
          sink_ = bench::read_two_arrays({work_.a.get(), options_.count},
                                         {work_.b.get(), options_.count});
        if (rank_ == 0 && options_.mode != "delta")
          bench::touch_changed({work_.b.get(), options_.count}, work_.changed);
      });
      const double touch = bench::timed([&] {
        if (rank_ != 0) bench::touch_changed({dense_.get(), options_.count}, work_.changed);
      });
      const double sparse = options_.mode == "delta" ? delta() : marked();
      if (i == 0) continue;
      dense_seconds_.push_back(dense);
      read_seconds_.push_back(read);
      touch_seconds_.push_back(touch);
      sparse_seconds_.push_back(sparse);
    }
    verify();
    if (rank_ == 0) print();
  }

  bool right() const { return right_; }

 private:
  double delta() {
    at_b_ = !at_b_;
    std::uint16_t* next = rank_ != 0 ? work_.a.get() : at_b_ ? work_.b.get() : work_.a.get();
    const std::uint16_t* base = rank_ != 0 ? nullptr : at_b_ ? work_.a.get() : work_.b.get();
    return bench::timed([&] {
      sparcl::check(sparclBroadcastDelta(next, base, options_.count / options_.stride(),
                                         options_.datatype(), 0, nullptr, comm_.get(), nullptr),
                    comm_.get());
    });
  }

  double marked() {
    at_b_ = !at_b_;
    if (rank_ == 0) {
      const std::uint16_t* from = at_b_ ? work_.b.get() : work_.a.get();
      for (const std::uint64_t i : work_.changed) held_[i] = from[i];
      if (options_.mode == "indices") {
        state_.mark_indices("weights", work_.changed);
      } else {
        state_.mark_blocks("weights", dirty_clusters(), bench::kClusterElements);
      }
    }
    const std::uint64_t version = ++version_;
    return bench::timed([&] { comm_.broadcast_update(state_, version, 0); });
  }

  std::vector<std::uint64_t> dirty_clusters() const {
    std::vector<std::uint64_t> bitmap(options_.count / bench::kClusterElements / 64 + 1);
    for (const std::uint64_t i : work_.changed)
      bitmap[i / bench::kClusterElements / 64] |= std::uint64_t{1}
                                                  << (i / bench::kClusterElements % 64);
    return bitmap;
  }

  void verify() {
    const std::uint16_t* held = options_.mode != "delta" ? held_.get() : work_.a.get();
    int mine = rank_ == 0 || bench::holds({held, options_.count}, work_, kSeed, at_b_) ? 1 : 0,
        all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    right_ = all == 1;
  }

  void print() const {
    const sparcl::Report report = comm_.report();
    const double dense = median(dense_seconds_), sparse = median(sparse_seconds_);
    const double floor = median(read_seconds_) + median(touch_seconds_);
    const double changed = static_cast<double>(work_.changed.size());
    const nlohmann::json row{
        {"op", "broadcast_delta"},
        {"mode", options_.mode},
        {"algorithm", report.algorithm},
        {"ranks", comm_.size()},
        {"count", options_.count / options_.stride()},
        {"dtype", options_.dtype == "bf16" ? "bfloat16" : "float32"},
        {"density", options_.density},
        {"clustered", options_.clustered},
        {"pin_root", options_.pin_root},
        {"iterations", options_.iterations},
        {"bytes_dense", options_.count * 2},
        {"bytes_wire", report.bytes_sent},
        {"bytes_bound", report.bytes_bound},
        {"bits_per_change",
         changed > 0 ? 8 * static_cast<double>(report.bytes_bound) / changed : 0},
        {"time_us_median", sparse * 1e6},
        {"time_us_min", *std::min_element(sparse_seconds_.begin(), sparse_seconds_.end()) * 1e6},
        {"encode_us", report.seconds_select * 1e6},
        {"exchange_us", report.seconds_exchange * 1e6},
        {"dense_time_us_median", dense * 1e6},
        {"floor_us", floor * 1e6},
        {"floor_read_us", median(read_seconds_) * 1e6},
        {"floor_touch_us", median(touch_seconds_) * 1e6},
        {"speedup", dense / sparse},
        {"over_floor", sparse / floor},
        {"wrong", right_ ? 0 : 1}};
    if (options_.json) {
      std::cout << row.dump() << "\n";
      return;
    }
    fmt::print("{}: {} {} elements, {} changed ({:.3g} %{}), {} ranks, {}{}\n", options_.mode,
               options_.count / options_.stride(), options_.dtype, work_.changed.size(),
               100 * options_.density, options_.clustered ? ", clustered" : "", comm_.size(),
               report.algorithm, options_.pin_root ? ", root alone on its core" : "");
    fmt::print("  dense MPI_Bcast   {:>10.2f} ms   {:>12} bytes a rank\n", dense * 1e3,
               options_.count * 2);
    fmt::print("  sparcl            {:>10.2f} ms   {:>12} bytes a rank, {:.2f} bits a change\n",
               sparse * 1e3, report.bytes_bound, row["bits_per_change"].get<double>());
    fmt::print("    of it encoding  {:>10.2f} ms   streaming, checking and vote {:.2f} ms\n",
               report.seconds_select * 1e3, report.seconds_exchange * 1e3);
    fmt::print("  floor             {:>10.2f} ms   root {:.2f}, replicas {:.2f}\n", floor * 1e3,
               median(read_seconds_) * 1e3, median(touch_seconds_) * 1e3);
    fmt::print("  speed-up over MPI_Bcast {:.2f}, over the floor {:.2f}, replicas {}\n",
               dense / sparse, sparse / floor, right_ ? "bit for bit right" : "WRONG");
  }

  Options options_;
  int rank_;
  bench::Workload work_;
  sparcl::Comm comm_;
  sparcl::State state_;
  bench::Weights dense_, held_;
  std::uint64_t version_ = 1;
  bool at_b_ = false;
  bool right_ = false;
  volatile std::uint64_t sink_ = 0;
  std::vector<double> dense_seconds_, read_seconds_, touch_seconds_, sparse_seconds_;
};

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Options options;
  CLI::App app("Sparse broadcast against MPI_Bcast and its floor");
  app.add_option("--count", options.count, "elements")->capture_default_str();
  app.add_option("--density", options.density, "share of elements that change")
      ->capture_default_str();
  app.add_option("--iterations", options.iterations, "timed repetitions")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--mode", options.mode,
                 "delta: the root compares; indices, blocks: the caller names the elements or the "
                 "blocks that changed")
      ->check(CLI::IsMember({"delta", "indices", "blocks"}))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "bf16, or fp32 (with --mode delta)")
      ->check(CLI::IsMember({"bf16", "fp32"}))
      ->capture_default_str();
  app.add_flag("--clustered", options.clustered,
               "changes are half of the elements of a few clusters of 4096");
  app.add_flag("--pin-root", options.pin_root, "rank 0 alone on core 0, all others on core 1");
  app.add_flag("--json", options.json, "one JSON line");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = rank == 0 ? app.exit(error) : error.get_exit_code();
    MPI_Finalize();
    return code == 0 ? 0 : 2;
  }
  if (options.stride() > 1 && options.mode != "delta") {
    if (rank == 0) fmt::print(stderr, "--dtype fp32 goes with --mode delta\n");
    MPI_Finalize();
    return 2;
  }
  options.count *= options.stride();
  if (options.pin_root) pin(rank == 0 ? 0 : 1);
  bool right = false;
  try {
    Bench bench(options, rank);
    bench.run();
    right = bench.right();
  } catch (const sparcl::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return right ? 0 : 1;
}
