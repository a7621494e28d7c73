#include <fmt/format.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/file_command.hpp"

namespace sparcl::tool {
namespace {

struct AdviseOptions {
  std::string first;
  std::string second;
  double link_gbit = 10;
  int ranks = 8;
};

double bits_a_change(std::uint64_t bytes, const sparclFileAdvice_t& advice) {
  return ratio(8 * static_cast<double>(bytes), static_cast<double>(advice.changed));
}

double density_of(const sparclFileAdvice_t& advice) {
  return ratio(static_cast<double>(advice.changed), static_cast<double>(advice.elements));
}

std::span<const sparclFileMode_t> modes_of(const sparclFileAdvice_t& advice) {
  return {advice.modes, static_cast<std::size_t>(advice.mode_count)};
}

bool sparse_wins(const sparclFileAdvice_t& advice) {
  return advice.sparse_seconds < advice.dense_seconds;
}

Json advice_json(const sparclFileAdvice_t& advice, const AdviseOptions& options) {
  Json modes = Json::array();
  for (const sparclFileMode_t& mode : modes_of(advice)) {
    modes.push_back({{"mode", mode.name},
                     {"bytes", mode.bytes},
                     {"bits_per_change", bits_a_change(mode.bytes, advice)},
                     {"encode_seconds", mode.seconds}});
  }
  return {{"elements", advice.elements},
          {"changed", advice.changed},
          {"density", density_of(advice)},
          {"dense_bytes", advice.dense_bytes},
          {"clustering", advice.clustering},
          {"position_bits", advice.position_bits},
          {"position_bits_given_old", advice.position_bits_given_old},
          {"unit_steps", advice.unit_steps},
          {"modes", modes},
          {"best_mode", advice.best_mode},
          {"bytes", advice.modes[0].bytes},
          {"broadcast_bytes", advice.broadcast.bytes},
          {"broadcast_encode_seconds", advice.broadcast.seconds},
          {"link_gbit", options.link_gbit},
          {"ranks", options.ranks},
          {"sparse_seconds", advice.sparse_seconds},
          {"sparse_algorithm", advice.sparse_algorithm},
          {"dense_seconds", advice.dense_seconds},
          {"dense_algorithm", advice.dense_algorithm},
          {"speedup", ratio(advice.dense_seconds, advice.sparse_seconds)},
          {"advice", sparse_wins(advice) ? "sparse" : "dense"},
          {"dense_wins_above_density",
           advice.dense_wins_above >= 0 ? Json(advice.dense_wins_above) : Json(nullptr)}};
}

std::string shape_text(const sparclFileAdvice_t& advice) {
  return fmt::format(
      "{} of {} elements changed ({:.3g} %), {:.0f} % of them by one unit in the last place\n"
      "clustering {:.2f} (1: independent); positions {:.2f} bits a change, {:.2f} given "
      "the old exponent\n",
      advice.changed, advice.elements, 100 * density_of(advice), 100 * advice.unit_steps,
      advice.clustering, advice.position_bits, advice.position_bits_given_old);
}

std::string advice_text(const sparclFileAdvice_t& advice, const AdviseOptions& options) {
  std::string text = shape_text(advice);
  for (const sparclFileMode_t& mode : modes_of(advice)) {
    text +=
        fmt::format("  {:<9} {:>10}  {:>7.2f} bits a change  encoded in {:.3g} s{}\n", mode.name,
                    human_bytes(mode.bytes), bits_a_change(mode.bytes, advice), mode.seconds,
                    std::string_view(mode.name) == advice.best_mode ? "  <- best" : "");
  }
  text += fmt::format(
      "broadcast to {} ranks at {:.3g} Gbit/s: sparse {} {:.3g} s ({}), dense {} {:.3g} s ({}): {} "
      "is {:.3g} times faster\n",
      options.ranks, options.link_gbit, human_bytes(advice.broadcast.bytes), advice.sparse_seconds,
      advice.sparse_algorithm, human_bytes(advice.dense_bytes), advice.dense_seconds,
      advice.dense_algorithm, sparse_wins(advice) ? "sparse" : "dense",
      sparse_wins(advice) ? ratio(advice.dense_seconds, advice.sparse_seconds)
                          : ratio(advice.sparse_seconds, advice.dense_seconds));
  return text + (advice.dense_wins_above >= 0
                     ? fmt::format("dense wins where more than {:.2g} % of the elements change\n",
                                   100 * advice.dense_wins_above)
                     : std::string("on this link dense wins at no density\n"));
}

Status run_advise(const AdviseOptions& options, bool as_json) {
  FileCommand command("advise");
  const sparclFileOptions_t call_options = command.options();
  sparclFileAdvice_t advice = SPARCL_FILE_ADVICE_INITIALIZER;
  const sparclResult_t result =
      sparclFileAdvise(options.first.c_str(), options.second.c_str(), options.link_gbit,
                       options.ranks, &call_options, &advice);
  command.warn();
  SPARCL_RETURN_IF_ERROR(command.status("sparclFileAdvise", result));
  return print(as_json, advice_json(advice, options), advice_text(advice, options));
}

}  // namespace

void add_advise(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<AdviseOptions>();
  app.add_option("FIRST", options->first,
                 "a checkpoint, or gradients: a .safetensors file, or a folder of shards")
      ->required();
  app.add_option("SECOND", options->second, "the same, a step later")->required();
  app.add_option("--link", options->link_gbit, "the link between two ranks, in Gbit/s")
      ->transform(real_number(0.001, 100000.0))
      ->type_name("GBIT")
      ->capture_default_str();
  app.add_option("--ranks", options->ranks, "how many ranks hold the state, the sender among them")
      ->transform(whole_number(2, 1 << 20))
      ->type_name("P")
      ->capture_default_str();
  invocation.run = [options, &invocation] { return run_advise(*options, invocation.json); };
}

}  // namespace sparcl::tool
