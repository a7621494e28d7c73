// sparcl-perf: the collectives against the dense MPI calls that they replace, in the manner of
// nccl-tests and OSU.
//   mpirun -n 4 sparcl-perf --op allreduce_masked -b 1M -e 64M --density 0.01
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <system_error>

#include "src/base/standard_streams.hpp"
#include "tools/number_checks.hpp"
#include "tools/perf/perf_operation.hpp"

namespace sparcl::perf {
namespace {

constexpr int kUsage = 2;

// An output that cannot be written is an error; a reader that has closed its end is none.
void write_out(const std::string& text) {
  if (!write_quietly(STDOUT_FILENO, text) && errno != EPIPE)
    throw std::system_error(errno, std::generic_category(),
                            "standard output: the result cannot be written");
}

struct Times {
  std::vector<double> seconds;
  void add(double time) { seconds.push_back(time); }
  double at(double share) const {  // of the sorted times; 0 if there are none (--no-dense)
    if (seconds.empty()) return 0;
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(sorted.size())))];
  }
  double median() const { return at(0.5); }
  bool empty() const { return seconds.empty(); }
};

// The time of the slowest rank; the same on all ranks.
double last_of(double mine) {
  double last = 0;
  MPI_Allreduce(&mine, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return last;
}

template <class Work>
double timed(Work&& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  work();
  return last_of(MPI_Wtime() - begin);
}

std::uint64_t over_ranks(std::uint64_t mine, MPI_Op op) {
  std::uint64_t all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, op, MPI_COMM_WORLD);
  return all;
}

struct Row {
  std::string asked;  // algorithm
  std::uint64_t count = 0;
  std::uint64_t bytes_dense = 0;
  std::uint64_t bytes_wire = 0;  // of the busiest rank, the larger direction
  std::uint64_t wrong = 0;
  Report report = SPARCL_REPORT_INITIALIZER;
  Times ours, dense, best;
  Times exchange;  // of the library, without selecting and converting the caller's values
  Times select;    // selecting and converting

  bool has_dense() const { return !dense.empty(); }
  double dense_best() const { return std::min(dense.median(), best.median()); }
};

// Calls of one kind in a row, as other benchmarks time them, then those of the next kind. A
// disturbance of the machine then disturbs all kinds.
constexpr int kInARow = 7;

template <class Call>
void time_in_a_row(int calls, const Call& call) {
  call(false);  // replaces the other kinds' data in the caches
  for (int i = 0; i < calls; ++i) call(true);
}

// One algorithm, with a communicator of its own.
struct Contender {
  std::string asked;
  Comm comm;
};

std::vector<Contender> make_contenders(const Options& options) {
  std::vector<Contender> made;
  for (const std::string& asked : options.algorithms) {
    const std::string name = algorithms_of(options).setting;
    const char* const setting = name.c_str();
    const char* given = std::getenv(setting);
    const std::string before = given != nullptr ? given : "";
    if (asked != "auto" || options.algorithms.size() > 1) setenv(setting, asked.c_str(), 1);
    made.push_back({asked, Comm::mpi(MPI_COMM_WORLD)});
    before.empty() ? unsetenv(setting) : setenv(setting, before.c_str(), 1);
  }
  return made;
}

// A row of each.
std::vector<Row> measure(const OperationRow& row, const Options& options, std::uint64_t count,
                         std::vector<Contender>& contenders) {
  std::vector<Row> rows(contenders.size());
  std::vector<std::unique_ptr<Operation>> operations;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    operations.push_back(row.make(options, count, contenders[i].comm));
    rows[i].asked = contenders[i].asked;
    rows[i].count = count;
    rows[i].bytes_dense = count * element_type(options.dtype).bytes;
  }
  const auto dense = [&](bool in_pieces, Times& times) {
    return [&operations, in_pieces, &times](bool counts) {
      const double seconds = timed([&] { operations.front()->dense(in_pieces); });
      if (counts) times.add(seconds);
    };
  };
  const auto ours = [&](std::size_t i) {
    return [&, i](bool counts) {
      operations[i]->reset();
      Comm& comm = contenders[i].comm;
      const double seconds = timed([&] { operations[i]->call(comm); }),
                   exchange = last_of(comm.report().seconds_exchange),
                   select = last_of(comm.report().seconds_select);
      if (!counts) return;
      rows[i].ours.add(seconds);
      rows[i].exchange.add(exchange);
      rows[i].select.add(select);
    };
  };
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    for (int done = 1; done < options.warmup; ++done) ours(i)(false);
  }
  for (int done = 0; done < options.iterations; done += kInARow) {
    const int calls = std::min(kInARow, options.iterations - done);
    if (options.dense &&
        contenders.front().comm.size() > 1) {  // a single rank would send nothing in a dense call
      time_in_a_row(calls, dense(false, rows.front().dense));
      time_in_a_row(calls, dense(true, rows.front().best));
    }
    for (std::size_t i = 0; i < contenders.size(); ++i) time_in_a_row(calls, ours(i));
  }
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    Row& result = rows[i];
    result.dense = rows.front().dense;
    result.best = rows.front().best;
    result.wrong = over_ranks(operations[i]->wrong(), MPI_SUM);
    result.report = contenders[i].comm.report();
    result.bytes_wire =
        over_ranks(std::max(result.report.bytes_sent, result.report.bytes_received), MPI_MAX);
  }
  return rows;
}

nlohmann::json to_json(const Options& options, const Row& row, int ranks) {
  const auto if_dense = [&](double number) {
    return row.has_dense() ? nlohmann::json(number) : nlohmann::json();
  };
  return {{"op", options.op},
          {"algorithm", row.report.algorithm},
          {"ranks", ranks},
          {"count", row.count},
          {"dtype", options.dtype},
          {"density", options.density},
          {"overlap", options.overlap},
          {"redraw", options.redraw},
          {"wire", options.wire},
          {"iterations", options.iterations},
          {"bytes_wire", row.bytes_wire},
          {"bytes_dense", row.bytes_dense},
          {"bytes_bound", row.report.bytes_bound},
          {"time_us_min", row.ours.at(0) * 1e6},
          {"time_us_median", row.ours.median() * 1e6},
          {"time_us_p99", row.ours.at(0.99) * 1e6},
          {"exchange_time_us_median", row.exchange.median() * 1e6},
          {"select_time_us_median", row.select.median() * 1e6},
          {"dense_time_us_median", if_dense(row.dense.median() * 1e6)},
          {"dense_best_time_us_median", if_dense(row.dense_best() * 1e6)},
          {"speedup", if_dense(row.dense.median() / row.ours.median())},
          {"speedup_best", if_dense(row.dense_best() / row.ours.median())},
          {"wrong", row.wrong},
          {"mode", options.is_top_k() ? nlohmann::json(options.mode) : nlohmann::json()},
          {"algo", row.asked}};
}

// The operation's options besides the size.
std::string describe(const Options& options) {
  std::string text = fmt::format("{}, density {:g}", options.dtype, options.density);
  if (options.is_top_k())
    text += fmt::format(", mode {}, values on the wire {}", options.mode, options.wire);
  if (options.op == "aggregate" || options.op == "allreduce_sparse" || options.is_top_k())
    text += fmt::format(", overlap {:g}", options.overlap);
  if (options.redraw) text += ", a mask drawn for each call";
  if (options.algorithms.size() > 1)
    text += fmt::format(", in turn by {}", fmt::join(options.algorithms, ", "));
  if (options.algorithms.size() == 1 && options.algorithms[0] != "auto")
    text += fmt::format(", by {}", options.algorithms[0]);
  return text;
}

void print_head(const Options& options, int ranks) {
  write_out(
      fmt::format("# {}, {} ranks, {}, {} iterations after {}; times in us until the last rank "
                  "returns; dense: MPI's call as it comes, and its best form\n",
                  options.op, ranks, describe(options), options.iterations, options.warmup));
  write_out(fmt::format(
      "{:>12} {:>12} {:>14} {:>12} {:>12} {:>10} {:>10} {:>10} {:>11} {:>11} {:>8} {:>8} {:>7}\n",
      "count", "bytes", "algorithm", "wire", "bound", "min", "median", "p99", "dense", "dense best",
      "faster", "of best", "#wrong"));
}

void print(const Row& row) {
  const auto if_dense = [&](double number, int digits) {
    return row.has_dense() ? fmt::format("{:.{}f}", number, digits) : std::string("-");
  };
  write_out(fmt::format(
      "{:>12} {:>12} {:>14} {:>12} {:>12} {:>10.1f} {:>10.1f} {:>10.1f} {:>11} {:>11} {:>8} {:>8} "
      "{:>7}\n",
      row.count, row.bytes_dense, row.report.algorithm, row.bytes_wire, row.report.bytes_bound,
      row.ours.at(0) * 1e6, row.ours.median() * 1e6, row.ours.at(0.99) * 1e6,
      if_dense(row.dense.median() * 1e6, 1), if_dense(row.dense_best() * 1e6, 1),
      if_dense(row.dense.median() / row.ours.median(), 2),
      if_dense(row.dense_best() / row.ours.median(), 2), row.wrong));
}

// Returns whether all results were right.
bool run(const Options& options, int rank, int ranks) {
  const OperationRow& row = find_operation(options.op);
  std::vector<Contender> contenders = make_contenders(options);
  if (rank == 0 && !options.json) print_head(options, ranks);
  std::uint64_t wrong = 0;
  const std::size_t width = element_type(options.dtype).bytes;
  for (double bytes = static_cast<double>(options.min_bytes);
       bytes <= static_cast<double>(options.max_bytes) * 1.0001; bytes *= options.factor) {
    const std::uint64_t count =
        std::max<std::uint64_t>(1, static_cast<std::uint64_t>(bytes) / width);
    for (const Row& result : measure(row, options, count, contenders)) {
      wrong += result.wrong;
      if (rank != 0) continue;
      if (options.json) {
        write_out(to_json(options, result, ranks).dump() + "\n");
      } else {
        print(result);
      }
    }
  }
  return wrong == 0;
}

// Refuses options that the operation does not have.
void check_options(const Options& options, const CLI::App& app) {
  if (options.min_bytes == 0) throw CLI::ValidationError("-b must be at least one byte");
  if (options.min_bytes > options.max_bytes) throw CLI::ValidationError("-b is larger than -e");
  const std::vector<const char*>& own = find_operation(options.op).own_options;
  for (const OperationRow& row : operation_table()) {
    for (const char* option : row.own_options) {
      const bool is_own = std::any_of(own.begin(), own.end(), [&](const char* each) {
        return std::string_view(each) == option;
      });
      if (!is_own && app.count(option) > 0)
        throw CLI::ValidationError(
            option, fmt::format("belongs to --op {}, not to {}", row.name, options.op));
    }
  }
  const std::vector<std::string> names = algorithms_of(options).names;
  for (const std::string& asked : options.algorithms) {
    if (asked == "auto" || std::find(names.begin(), names.end(), asked) != names.end()) continue;
    const std::string mode = options.is_top_k() ? " in mode " + options.mode : "";
    throw CLI::ValidationError(
        "--algo", fmt::format("{} is none of {}{}, which has auto, {}", asked, options.op, mode,
                              fmt::join(names, ", ")));
  }
}

Options parse(int argc, char** argv, int& exit_code, bool speaks) {
  Options options;
  std::vector<std::string> operations;
  for (const OperationRow& row : operation_table()) operations.emplace_back(row.name);
  CLI::App app("Sparse collectives against the dense calls of MPI: run it under mpirun or srun");
  app.add_option("--op", options.op, "what is measured")
      ->check(CLI::IsMember(operations))
      ->capture_default_str();
  app.add_option("-b,--min", options.min_bytes, "smallest dense array, in bytes (K, M, G)")
      ->transform(CLI::AsSizeValue(false))
      ->transform(tool::size_with_unit())
      ->capture_default_str();
  app.add_option("-e,--max", options.max_bytes, "largest")
      ->transform(CLI::AsSizeValue(false))
      ->transform(tool::size_with_unit())
      ->capture_default_str();
  app.add_option("-f,--factor", options.factor, "from one size to the next")
      ->transform(tool::real_number(1.0001, 1e9))
      ->capture_default_str();
  app.add_option("--dtype", options.dtype, "of the elements")
      ->check(CLI::IsMember(element_type_names()))
      ->capture_default_str();
  app.add_option("--density", options.density, "share of the elements that are sent")
      ->transform(tool::real_number(0.0, 1.0))
      ->capture_default_str();
  app.add_option(
         "--overlap", options.overlap,
         "aggregate, allreduce_sparse, allreduce_topk: share of each rank's elements that all have")
      ->transform(tool::real_number(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--ranks", options.ranks,
                 "aggregate: ranks that aggregate, ascending, with commas between them; leave out "
                 "those with slow links (default: all)")
      ->transform(tool::whole_number(0, 1 << 20))
      ->delimiter(',');
  app.add_option("--algo", options.algorithms,
                 "forces an algorithm, as SPARCL_ALGO_... does: " + algorithm_names() +
                     ". Several, with commas between them, are measured in turn")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--iters", options.iterations, "timed calls of a size")
      ->transform(tool::whole_number(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--warmup", options.warmup, "calls of ours before them; one of each kind always")
      ->transform(tool::whole_number(0, 1'000'000))
      ->capture_default_str();
  app.add_flag("--redraw", options.redraw, "allreduce_masked: each call draws its mask anew");
  app.add_option("--mode", options.mode, "of allreduce_topk")
      ->check(CLI::IsMember({"union", "selected", "global"}))
      ->capture_default_str();
  app.add_option("--wire", options.wire,
                 "of allreduce_topk: what values are rounded to before they are sent")
      ->check(CLI::IsMember({"exact", "bfloat16", "int8", "int4", "int2"}))
      ->capture_default_str();
  app.add_flag("!--no-dense", options.dense, "leaves the dense calls out");
  app.add_flag("--json", options.json, "one JSON line a size");
  app.footer("Exit codes: 0 ok, 1 a result was wrong or a call failed, 2 usage.");
  try {
    app.parse(argc, argv);
    check_options(options, app);
    exit_code = -1;
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    const int code = app.exit(error, out, out);
    exit_code = code == 0 ? 0 : kUsage;
    const bool is_written = !speaks ||
                            write_quietly(code == 0 ? STDOUT_FILENO : STDERR_FILENO, out.str()) ||
                            errno == EPIPE;
    if (code == 0 && !is_written) exit_code = 1;
  }
  return options;
}

}  // namespace
}  // namespace sparcl::perf

int main(int argc, char** argv) {
  sparcl::prepare_standard_streams();
  std::setlocale(
      LC_ALL,
      "C");  // whatever a library has set when it was loaded: the parser reads numbers by it
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int exit_code = 0;
  const sparcl::perf::Options options = sparcl::perf::parse(argc, argv, exit_code, rank == 0);
  if (exit_code < 0) {
    try {
      exit_code = sparcl::perf::run(options, rank, ranks) ? 0 : 1;
    } catch (const std::exception& error) {
      const std::string text = error.what(), who = fmt::format("rank {}: ", rank);
      // Errors of calls begin with the rank already.
      (void)sparcl::write_quietly(
          STDERR_FILENO,
          fmt::format("sparcl-perf: {}{}\n", text.starts_with(who) ? "" : who, text));
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return exit_code;
}
