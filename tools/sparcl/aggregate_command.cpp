// Serves workers that come and go: sums what they contribute, round after round.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "src/base/settings.hpp"
#include "src/elastic/elastic_service.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/model_id.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/aggregator_report.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/credentials.hpp"
#include "tools/sparcl/metrics_page.hpp"
#include "tools/sparcl/model_memory.hpp"
#include "tools/sparcl/published_model.hpp"
#include "tools/sparcl/signals.hpp"

namespace sparcl::tool {
namespace {

constexpr double kStopLook = 0.2;  // seconds between two looks for a signal

struct AggregateOptions {
  std::string model, output;
  elastic::ServicePlan plan;
  aggregate::AggregatorOptions how;
  std::uint64_t rounds = 0;  // then the command ends; 0: never
  MetricsPlace metrics;
};

// With a parent, the round's sums have gone to it.
void print_round(const elastic::RoundReport& report, bool has_parent, bool as_json) {
  const bool is_ok = report.failure.ok();
  const Json json{{"round", report.round},
                  {"version", report.round + 1},
                  {"listed", is_ok ? report.listed : 0},
                  {"late", report.late},
                  {"missing", report.expelled},
                  {"weight", report.total_weight},
                  {"changed", report.changed},
                  {"bytes", report.received_bytes},
                  {"seconds", report.seconds},
                  {"failure", is_ok ? Json(nullptr) : Json(report.failure.message())}};
  const std::string missing =
      report.expelled > 0 ? fmt::format(", workers missing: {}", report.expelled) : "";
  const std::string late = report.late > 0 ? fmt::format(" ({} late)", report.late) : "";
  const std::string result = has_parent
                                 ? fmt::format("sums sent up after {:.3f} s", report.seconds)
                                 : fmt::format("{} elements changed, version {} after {:.3f} s",
                                               report.changed, report.round + 1, report.seconds);
  print_news(
      as_json, json,
      is_ok ? fmt::format("round {}: contributions {}{}, {}{}; {}\n", report.round, report.listed,
                          late, human_bytes(report.received_bytes), missing, result)
            : fmt::format("round {} failed{}: {}\n", report.round, missing,
                          report.failure.message()));
}

void print_start(const elastic::ElasticService& service, const std::string& parent, bool as_json) {
  if (service.has_parent())
    return print_news(
        as_json, {{"address", service.address()}, {"parent", parent}},
        fmt::format("workers connect to {}; sums go to {}\n", service.address(), parent));
  print_news(as_json,
             {{"address", service.address()},
              {"results", service.results()},
              {"round", service.version()}},
             fmt::format("workers connect to {}; results are published at {}; round {} is open\n",
                         service.address(), service.results(), service.version()));
}

Status write_model(const AggregateOptions& options, const model::Checkpoint& read,
                   const ModelMemory& memory, bool as_json) {
  if (options.output.empty()) return {};
  SPARCL_RETURN_IF_ERROR(model::write_checkpoint(options.output, read.layout(), memory.tensors()));
  print_news(as_json, {{"output", options.output}},
             fmt::format("the model is in {}\n", options.output));
  return {};
}

Status run_aggregate(AggregateOptions options, bool as_json) {
  stop_on_signals();
  SPARCL_RETURN_IF_ERROR(options.plan.publish.take_settings());
  SPARCL_ASSIGN_OR_RETURN(const model::Checkpoint read,
                          model::Checkpoint::open_unread(options.model));
  SPARCL_ASSIGN_OR_RETURN(const std::unique_ptr<ModelMemory> memory,
                          ModelMemory::create(read.schema()));
  SPARCL_RETURN_IF_ERROR(memory->read(read));
  SPARCL_ASSIGN_OR_RETURN(options.plan.publish.description, describe_layout(read.layout()));
  const replication::ReplicatedState& state = memory->view();
  SPARCL_ASSIGN_OR_RETURN(
      const elastic::FlatWeights flat,
      elastic::FlatWeights::of(state.map->arrays(), state.arrays, *state.kernels));
  SPARCL_ASSIGN_OR_RETURN(aggregate::Aggregator aggregator,
                          aggregate::Aggregator::create(flat.count(), options.how));
  const Result<std::unique_ptr<elastic::ElasticService>> created =
      elastic::ElasticService::create(state, aggregator, options.plan);
  if (!created.ok()) return created.status();
  elastic::ElasticService& service = **created;
  std::unique_ptr<MetricsPage> page;  // it asks the service: it ends first
  if (!options.metrics.where.empty()) {
    Result<std::unique_ptr<MetricsPage>> opened = MetricsPage::open(options.metrics, [&] {
      return aggregator_metrics(Json::parse(service.status(), nullptr, false));
    });
    if (!opened.ok()) return opened.status();
    page = std::move(*opened);
    print_note(fmt::format("metrics at {}", page->address()));
  }
  print_start(service, options.plan.parent, as_json);
  for (std::uint64_t ended = 0; !stop_is_asked();) {
    const Result<elastic::RoundReport> report = service.next(kStopLook);
    if (!report.ok() && report.status().code() == Code::kTimeout) continue;
    if (!report.ok()) return report.status();
    print_round(*report, service.has_parent(), as_json);
    if (++ended == options.rounds) break;
  }
  SPARCL_RETURN_IF_ERROR(service.keep());
  return write_model(options, read, *memory, as_json);
}

std::string address_fault(const std::string& text) {
  const Result<net::HostPort> where = net::parse_host_port(text);
  return where.ok() ? std::string() : where.status().message();
}

std::string addresses_fault(const std::string& text) {
  return net::parse_host_ports(text).status().message();
}

// A usage error, before anything is opened.
void check_reach_of(const AggregateOptions& options) {
  for (const auto& [name, where] : {std::pair("--listen", options.plan.listen),
                                    std::pair("--publish", options.plan.publish.listen)}) {
    const bool is_near = options.plan.publish.reach() == replication::Reach::kThisMachine;
    if (!is_near || !replication::is_reachable(where)) continue;
    throw CLI::ValidationError(
        name, fmt::format("other machines can reach {}: give --secret FILE (sparcl secret makes "
                          "one) or --certificates FOLDER, or --insecure if everybody who reaches "
                          "the port may read the weights and contribute",
                          where));
  }
  options.metrics.check();
}

template <class Enum>
void add_choice(CLI::App& app, const std::string& name, Enum& into, const std::string& text,
                const std::map<std::string, Enum>& choices) {
  const auto fault = [choices](const std::string& given) {
    std::string names;
    for (const auto& [each, value] : choices) names += (names.empty() ? "" : ", ") + each;
    return choices.contains(given) ? std::string()
                                   : fmt::format("'{}' is none of {}", given, names);
  };
  app.add_option_function<std::string>(
         name, [&into, choices](const std::string& given) { into = choices.at(given); }, text)
      ->check(CLI::Validator(fault, "", ""))
      ->type_name("NAME");
}

CLI::Option* add_number(CLI::App& app, const std::string& name, double& into,
                        const std::string& text) {
  return app.add_option(name, into, text)->transform(real_number(0))->type_name("NUMBER");
}

void add_round_options(CLI::App& app, aggregate::RoundOptions& round) {
  using aggregate::RoundMode;
  add_choice<RoundMode>(app, "--round", round.mode,
                        "when a round ends: synchronous (the default) with all workers, quorum "
                        "with --quorum of them and a grace window, asynchronous with any --quorum "
                        "contributions",
                        {{"synchronous", RoundMode::kSynchronous},
                         {"quorum", RoundMode::kQuorum},
                         {"asynchronous", RoundMode::kAsynchronous}});
  app.add_option("--quorum", round.quorum, "contributions that are enough (default: 1)")
      ->needs("--round")
      ->type_name("N")
      ->transform(whole_number(1, 1 << 20));
  add_number(app, "--deadline", round.deadline_s,
             "seconds of a round from its first contribution on (default: 600)");
  add_number(app, "--grace-min", round.grace.shortest_s,
             "of the window after the quorum, in seconds (default: 0)")
      ->needs("--round");
  add_number(app, "--grace-max", round.grace.longest_s,
             "likewise; it follows how late workers usually come (default: 0)")
      ->needs("--round");
  add_number(app, "--late-factor", round.late_factor,
             "of a late contribution's weight, for each round, 0 to 1 (default: 1)");
}

void add_aggregator_options(CLI::App& app, aggregate::AggregatorOptions& how) {
  using aggregate::MeanKind;
  using aggregate::NonFinite;
  using aggregate::OuterKind;
  add_choice<MeanKind>(app, "--mean", how.mean,
                       "by-weight (the default), workers, contributors, sum",
                       {{"by-weight", MeanKind::kByWeight},
                        {"workers", MeanKind::kOverWorkers},
                        {"contributors", MeanKind::kOverContributors},
                        {"sum", MeanKind::kSum}});
  add_choice<OuterKind>(
      app, "--outer", how.outer.kind,
      "outer optimiser: none (the default), sgd, nesterov, delayed-nesterov, adam",
      {{"none", OuterKind::kNone},
       {"sgd", OuterKind::kSgd},
       {"nesterov", OuterKind::kNesterov},
       {"delayed-nesterov", OuterKind::kDelayedNesterov},
       {"adam", OuterKind::kAdam}});
  add_number(app, "--learning-rate", how.outer.learning_rate, "of the outer optimiser (default: 1)")
      ->needs("--outer");
  add_number(app, "--momentum", how.outer.momentum, "likewise: 0 up to below 1 (default: 0)")
      ->needs("--outer");
  add_number(app, "--clip-l2", how.screen.clip.l2_norm,
             "contributions with a larger L2 norm are scaled down to it (default: off)");
  add_number(app, "--clip-median", how.screen.clip.median_factor,
             "likewise, to so many times the median norm of the round (default: off)");
  add_choice<NonFinite>(
      app, "--non-finite", how.screen.non_finite,
      "for NaN and infinity: fail (the default: the round fails), refuse (the "
      "contribution), zero (the value)",
      {{"fail", NonFinite::kFail}, {"refuse", NonFinite::kRefuse}, {"zero", NonFinite::kZero}});
  app.add_option("--keep", how.keep,
                 "elements of a result at most, the largest; the rest is kept for later rounds "
                 "(default: all)")
      ->transform(whole_number())
      ->type_name("N");
}

}  // namespace

void add_aggregate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<AggregateOptions>();
  replication::PublisherOptions& publish = options->plan.publish;
  app.add_option("--model", options->model,
                 "the checkpoint that training starts from: a .safetensors file or a folder. Its "
                 "tensors of F32, BF16 and F16 are aggregated")
      ->required()
      ->type_name("PATH");
  app.add_option("--listen", options->plan.listen,
                 "where workers connect. Beyond this machine it needs --secret, --certificates or "
                 "--insecure (default: any port of the loopback interface)")
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  CLI::Option* const parent =
      app.add_option("--parent", options->plan.parent,
                     "an aggregator above this one, which decides what counts: this one sums what "
                     "its workers contribute, and sends sums up. Several addresses with commas "
                     "between them take over from each other")
          ->type_name("HOST:PORT")
          ->check(addresses_fault, "", "");
  app.add_option("--publish", publish.listen,
                 "where results are published, also for sparcl subscribe (default: any port of the "
                 "loopback interface)")
      ->excludes(parent)
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  app.add_option("--model-id", publish.model_id, "a name: workers of another model are refused")
      ->type_name("ID")
      ->check([](const std::string& id) { return replication::check_model_id(id).message(); }, "",
              "");
  app.add_option("--state", options->plan.root.folder,
                 "keeps the rounds: another process with the same options goes on where this one "
                 "ends, and takes over if this one still runs")
      ->excludes(parent)
      ->type_name("FOLDER")
      ->check(empty_name_fault);
  app.add_option("--output", options->output, "the model is written there at the end")
      ->excludes(parent)
      ->type_name("PATH")
      ->check(empty_name_fault);
  app.add_option("--rounds", options->rounds, "end after so many rounds (default: go on)")
      ->transform(whole_number())
      ->type_name("N");
  add_round_options(app, options->plan.root.desk.round);
  add_aggregator_options(app, options->how);
  app.add_option("--secret", publish.secret_path,
                 "of sparcl secret, role publish: connections are encrypted, and workers need the "
                 "secret of role replicate (default: SPARCL_SECRET)")
      ->type_name("FILE")
      ->check(empty_name_fault);
  add_certificates(app, publish.certificates_path, "publish");
  app.add_option("--key", publish.key_path,
                 "of sparcl keygen: it signs results, which workers and replicas can check "
                 "(default: the secret's key, if there is one)")
      ->excludes(parent)
      ->type_name("FILE")
      ->check(empty_name_fault);
  app.add_option("--contributors", options->plan.contributors_path,
                 "public keys, a line each: contributions need a signature by one of them. It is "
                 "read again when it changes")
      ->excludes(parent)
      ->type_name("FILE")
      ->check(empty_name_fault);
  app.add_flag("--insecure", publish.is_insecure,
               "the ports may be in the clear for other machines: each process that reaches them "
               "may read the weights, and contribute");
  app.add_option("--metrics", options->metrics.where,
                 "figures for Prometheus at http://HOST:PORT/metrics")
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  app.parse_complete_callback([options] {
    replication::PublisherOptions& own = options->plan.publish;
    take_credentials(own.secret_path, own.certificates_path);
    options->metrics.certificates_path = own.certificates_path;
    options->metrics.is_insecure = own.is_insecure;
    check_reach_of(*options);
    if (const Status round = aggregate::check_round_options(options->plan.root.desk.round);
        !round.ok())
      throw CLI::ValidationError(round.message());
  });
  invocation.run = [options, &invocation] { return run_aggregate(*options, invocation.json); };
}

}  // namespace sparcl::tool
