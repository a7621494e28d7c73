#include <fmt/format.h>

#include <memory>

#include "collectives/broadcast/broadcast_forecast.hpp"
#include "src/model/files/delta_file.hpp"
#include "src/model/files/mode_costs.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/console_watch.hpp"

namespace sparcl::tool {
namespace {

struct AdviseOptions {
  std::string first;
  std::string second;
  double link_gbit = 10;
  int ranks = 8;
};

struct Advice : model::ModeCosts, collectives::broadcast::BroadcastForecast {};

Result<Advice> advise(const AdviseOptions& options) {
  SPARCL_ASSIGN_OR_RETURN(
      model::ModeCosts costs,
      model::measure_costs(options.first, options.second, console_watch("advise")));
  const collectives::broadcast::BroadcastForecast forecast = collectives::broadcast::forecast(
      costs.shape, costs.broadcast, options.link_gbit, options.ranks);
  return Advice{std::move(costs), forecast};
}

double bits_a_change(std::uint64_t bytes, const model::ChangeShape& shape) {
  return ratio(8 * static_cast<double>(bytes), static_cast<double>(shape.changed));
}

Json advice_json(const Advice& advice, const AdviseOptions& options) {
  const model::ChangeShape& shape = advice.shape;
  Json modes = Json::array();
  for (const model::ModeCost& mode : advice.modes) {
    modes.push_back({{"mode", mode.name},
                     {"bytes", mode.bytes},
                     {"bits_per_change", bits_a_change(mode.bytes, shape)},
                     {"encode_seconds", mode.seconds}});
  }
  return {{"elements", shape.elements},
          {"changed", shape.changed},
          {"density", shape.density()},
          {"dense_bytes", shape.dense_bytes},
          {"clustering", shape.clustering},
          {"position_bits", shape.position_bits},
          {"position_bits_given_old", shape.position_bits_given_old},
          {"unit_steps", shape.unit_steps},
          {"modes", modes},
          {"best_mode", advice.best_mode},
          {"bytes", advice.modes.front().bytes},
          {"broadcast_bytes", advice.broadcast.bytes},
          {"broadcast_encode_seconds", advice.broadcast.seconds},
          {"link_gbit", options.link_gbit},
          {"ranks", options.ranks},
          {"sparse_seconds", advice.sparse_seconds},
          {"sparse_algorithm", advice.sparse_algorithm},
          {"dense_seconds", advice.dense_seconds},
          {"dense_algorithm", advice.dense_algorithm},
          {"speedup", ratio(advice.dense_seconds, advice.sparse_seconds)},
          {"advice", advice.sparse_wins ? "sparse" : "dense"},
          {"dense_wins_above_density",
           advice.dense_wins_above ? Json(*advice.dense_wins_above) : Json(nullptr)}};
}

std::string shape_text(const model::ChangeShape& shape) {
  return fmt::format(
      "{} of {} elements changed ({:.3g} %), {:.0f} % of them by one unit in the last place\n"
      "clustering {:.2f} (1: strewn independently); positions {:.2f} bits a change, {:.2f} given "
      "the old exponent\n",
      shape.changed, shape.elements, 100 * shape.density(), 100 * shape.unit_steps,
      shape.clustering, shape.position_bits, shape.position_bits_given_old);
}

std::string advice_text(const Advice& advice, const AdviseOptions& options) {
  std::string text = shape_text(advice.shape);
  for (const model::ModeCost& mode : advice.modes) {
    text += fmt::format("  {:<9} {:>10}  {:>7.2f} bits a change  encoded in {:.3g} s{}\n",
                        mode.name, human_bytes(mode.bytes), bits_a_change(mode.bytes, advice.shape),
                        mode.seconds, mode.name == advice.best_mode ? "  <- best" : "");
  }
  text += fmt::format(
      "broadcast to {} ranks at {:.3g} Gbit/s: sparse {} {:.3g} s ({}), dense {} {:.3g} s ({}): {} "
      "is {:.3g} times faster\n",
      options.ranks, options.link_gbit, human_bytes(advice.broadcast.bytes), advice.sparse_seconds,
      advice.sparse_algorithm, human_bytes(advice.shape.dense_bytes), advice.dense_seconds,
      advice.dense_algorithm, advice.sparse_wins ? "sparse" : "dense",
      advice.sparse_wins ? ratio(advice.dense_seconds, advice.sparse_seconds)
                         : ratio(advice.sparse_seconds, advice.dense_seconds));
  return text + (advice.dense_wins_above
                     ? fmt::format("dense wins where more than {:.2g} % of the elements change\n",
                                   100 * *advice.dense_wins_above)
                     : std::string("on this link dense wins at no density\n"));
}

Status run_advise(const AdviseOptions& options, bool as_json) {
  for (const std::string& path : {options.first, options.second})
    SPARCL_RETURN_IF_ERROR(model::expect_checkpoint(path));
  SPARCL_ASSIGN_OR_RETURN(const Advice advice, advise(options));
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
      ->transform(no_nan())
      ->check(CLI::Range(0.001, 100000.0))
      ->type_name("GBIT")
      ->capture_default_str();
  app.add_option("--ranks", options->ranks, "how many ranks hold the state, the sender among them")
      ->check(CLI::Range(2, 1 << 20))
      ->type_name("P")
      ->capture_default_str();
  invocation.run = [options, &invocation] { return run_advise(*options, invocation.json); };
}

}  // namespace sparcl::tool
