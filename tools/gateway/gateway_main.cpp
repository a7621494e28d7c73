// `sparcl-gateway`: versions of a publisher or a store, over gRPC.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <clocale>
#include <exception>
#include <new>
#include <span>
#include <sstream>
#include <string>

#include "src/base/settings.hpp"
#include "src/base/standard_streams.hpp"
#include "src/net/host_port.hpp"
#include "src/replication/listener.hpp"
#include "src/replication/model_id.hpp"
#include "tools/gateway/gateway_server.hpp"
#include "tools/gateway/gateway_source.hpp"
#include "tools/number_checks.hpp"
#include "tools/sparcl/command.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/credentials.hpp"
#include "tools/sparcl/last_resort.hpp"
#include "tools/sparcl/metrics_page.hpp"
#include "tools/sparcl/open_chain.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::gateway {
namespace {

constexpr double kStopLookSeconds = 0.2;  // between two checks for a stop

struct GatewayOptions {
  bool json = false;
  std::optional<std::string> model_id;
  PublisherPlace publisher;
  StorePlace store;
  ServerOptions server;
  ShelfLimits shelf;
  bool is_insecure = false;
  tool::MetricsPlace metrics;
};

std::vector<tool::Metric> gateway_metrics(const ServerCounts& counts, std::uint64_t version) {
  const auto one = [](const char* name, const char* help, tool::Metric::Kind kind,
                      std::uint64_t value) {
    return tool::Metric{name, help, kind, {{{}, static_cast<double>(value)}}};
  };
  constexpr tool::Metric::Kind kGauge = tool::Metric::Kind::kGauge;
  constexpr tool::Metric::Kind kCounter = tool::Metric::Kind::kCounter;
  return {
      one("sparcl_gateway_version", "Newest version.", kGauge, version),
      one("sparcl_gateway_streams", "Streams that are open.", kGauge, counts.sessions),
      one("sparcl_gateway_streams_total", "Streams that were opened.", kCounter, counts.opened),
      one("sparcl_gateway_refused_total", "Streams that were refused.", kCounter, counts.refused),
      one("sparcl_gateway_dropped_total", "Streams that were dropped as too slow.", kCounter,
          counts.dropped),
      one("sparcl_gateway_anchors_total", "Anchors that were acknowledged.", kCounter,
          counts.anchors),
      one("sparcl_gateway_steps_total", "Changes that were acknowledged.", kCounter, counts.steps),
      one("sparcl_gateway_nacks_total", "Offers that clients could not use.", kCounter,
          counts.nacks),
      one("sparcl_gateway_bytes_total", "Bytes of positions and values that were sent.", kCounter,
          counts.bytes)};
}

// Shows each version that comes, until a stop is asked for.
class Gateway {
 public:
  Gateway(const GatewayOptions& options, GatewaySource& source)
      : options_(options), source_(source), shelf_(source.memory(), options.shelf) {}

  Status run() {
    while (!tool::stop_is_asked()) {
      const Result<std::optional<model::HeldVersion>> next = source_.next(kStopLookSeconds);
      teller_.note(next.status(), net::monotonic_seconds());
      if (!next.ok() && source_.is_lasting(next.status().code())) return next.status();
      // An error may come back at once.
      if (!next.ok() && tool::wait_for_stop(kStopLookSeconds)) return {};
      if (!next.ok() || !*next) continue;
      SPARCL_RETURN_IF_ERROR(show(**next));
    }
    return {};
  }

 private:
  Status show(const model::HeldVersion& version) {
    SPARCL_ASSIGN_OR_RETURN(const VersionShelf::Shown shown,
                            shelf_.show(version, tool::stop_is_asked));
    version_ = version.version;
    if (server_ == nullptr) SPARCL_RETURN_IF_ERROR(open_port());
    const tool::Json json{{"version", version.version},
                          {"hash", to_hex(version.hash)},
                          {"changed", shown.changed},
                          {"plain_bytes", shown.plain_bytes},
                          {"coded_bytes", shown.coded_bytes},
                          {"by_anchor", !shown.has_step},
                          {"streams", server_->counts().sessions.load()}};
    tool::print_news(
        options_.json, json,
        shown.has_step
            ? fmt::format("version {}: {} elements changed, {} plain, {} coded, {}\n",
                          version.version, shown.changed, tool::human_bytes(shown.plain_bytes),
                          tool::human_bytes(shown.coded_bytes), to_hex(version.hash))
            : fmt::format("version {}: an anchor of {}, {}\n", version.version,
                          tool::human_bytes(source_.memory().byte_count()), to_hex(version.hash)));
    return {};
  }

  Status open_port() {
    ServerOptions server = options_.server;
    server.model_id = source_.model_id();
    SPARCL_ASSIGN_OR_RETURN(server_, GatewayServer::start(server, shelf_, tool::print_warning));
    tool::print_news(options_.json,
                     {{"address", server_->address()}, {"model_id", source_.model_id()}},
                     fmt::format("listening on {}\n", server_->address()));
    if (options_.metrics.where.empty()) return {};
    SPARCL_ASSIGN_OR_RETURN(page_, tool::MetricsPage::open(options_.metrics, [this] {
                              return gateway_metrics(server_->counts(), version_);
                            }));
    tool::print_note(fmt::format("metrics at {}", page_->address()));
    return {};
  }

  const GatewayOptions& options_;
  GatewaySource& source_;
  VersionShelf shelf_;
  std::atomic<std::uint64_t> version_ = 0;
  tool::TroubleTeller teller_;
  std::unique_ptr<GatewayServer> server_;    // reads the shelf: it ends first
  std::unique_ptr<tool::MetricsPage> page_;  // asks the server: it ends first
};

Result<GatewaySourceRef> open_source(GatewayOptions& options) {
  if (!options.store.url.empty()) {
    options.store.model_id = options.model_id.value_or("");
    options.store.trust_path = options.publisher.subscriber.trust_path;
    options.store.trust_threshold = options.publisher.subscriber.trust_threshold;
    return open_store_source(options.store);
  }
  options.publisher.model_id = options.model_id;
  return open_publisher(options.publisher);
}

Status run_gateway(GatewayOptions options) {
  tool::stop_on_signals();
  SPARCL_ASSIGN_OR_RETURN(const GatewaySourceRef source, open_source(options));
  if (source == nullptr) return {};
  return Gateway(options, *source).run();
}

std::string address_fault(const std::string& text) {
  const Result<net::HostPort> where = net::parse_host_port(text);
  return where.ok() ? std::string() : where.status().message();
}

// A usage error, before anything is opened.
void check_reach(const GatewayOptions& options) {
  const bool is_near = options.server.certificates_path.empty() && !options.is_insecure;
  if (is_near && replication::is_reachable(options.server.listen))
    throw CLI::ValidationError(
        "--listen", fmt::format("other machines can reach {}: give --certificates FOLDER, or "
                                "--insecure if everybody who reaches the port may read the weights",
                                options.server.listen));
  options.metrics.check();
}

void add_source_options(CLI::App& app, GatewayOptions& options) {
  CLI::Option* publisher =
      app.add_option("--publisher", options.publisher.address,
                     "versions come from this publisher, as sparcl publish prints its address")
          ->type_name("HOST:PORT")
          ->check(address_fault, "", "");
  CLI::Option* url =
      app.add_option("--store", options.store.url,
                     "versions come from this store: file:PATH or s3://BUCKET/PREFIX")
          ->type_name("URL")
          ->check(tool::store_url_fault, "", "")
          ->excludes(publisher);
  app.add_option("--model-id", options.model_id, "refuse a publisher or a store of another model")
      ->type_name("ID")
      ->check([](const std::string& id) { return replication::check_model_id(id).message(); }, "",
              "");
  app.add_option("--poll", options.store.poll_s,
                 "of --store: between two looks at what is new (default: 1)")
      ->type_name("SECONDS")
      ->transform(tool::real_number(0.01, kMaxSeconds))
      ->excludes(publisher);
  replication::SubscriberOptions& subscriber = options.publisher.subscriber;
  app.add_option("--secret", subscriber.secret_path,
                 "of --publisher: of sparcl secret, role replicate (default: SPARCL_SECRET)")
      ->type_name("FILE")
      ->check(tool::empty_name_fault)
      ->excludes(url);
  app.add_option("--publisher-certificates", subscriber.certificates_path,
                 "of --publisher: folder with ca.crt, tls.crt and tls.key in place of a secret, of "
                 "role replicate (default: SPARCL_CERTIFICATES)")
      ->type_name("FOLDER")
      ->check(tool::empty_name_fault)
      ->excludes(url);
  app.add_option(
         "--trust", subscriber.trust_path,
         "public keys, a line each: what none of them has signed is refused. Needs --model-id")
      ->type_name("KEYFILE")
      ->check(tool::empty_name_fault);
  app.add_option("--trust-threshold", subscriber.trust_threshold,
                 "so many keys of --trust must have signed (default: 1)")
      ->type_name("N")
      ->transform(tool::whole_number(1, trust::kMaxSignatures));
}

void add_server_options(CLI::App& app, GatewayOptions& options) {
  app.add_option("--listen", options.server.listen,
                 "where clients connect; without a host on all interfaces. Beyond this machine it "
                 "needs --certificates or --insecure (default: any port of the loopback interface)")
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  app.add_option("--certificates", options.server.certificates_path,
                 "folder with ca.crt, tls.crt and tls.key: clients need TLS and a certificate of "
                 "role replicate")
      ->type_name("FOLDER")
      ->check(tool::empty_name_fault);
  app.add_flag("--insecure", options.is_insecure,
               "the ports of --listen and --metrics may be in the clear for other machines. Each "
               "process that reaches them may read what is sent");
  app.add_option("--metrics", options.metrics.where,
                 "figures for Prometheus at http://HOST:PORT/metrics, once there is a version. "
                 "With --certificates at https://, for readers with a certificate")
      ->type_name("HOST:PORT")
      ->check(address_fault, "", "");
  app.add_option("--max-sessions", options.server.max_sessions,
                 "streams of clients at a time (default: 256)")
      ->type_name("N")
      ->transform(tool::whole_number(1, std::size_t{1} << 16));
  app.add_option("--send-timeout", options.server.send_s,
                 "drop a client that takes no message for so long (default: 30)")
      ->type_name("SECONDS")
      ->transform(tool::real_number(0.1, kMaxSeconds));
  app.add_option("--answer-timeout", options.server.session.answer_s,
                 "drop a client that does not answer an OFFER or a COMMIT for so long (default: "
                 "300)")
      ->type_name("SECONDS")
      ->transform(tool::real_number(0.1, kMaxSeconds));
}

void add_shelf_options(CLI::App& app, GatewayOptions& options) {
  app.add_option("--patience", options.shelf.patience_s,
                 "drop a client that reads an anchor for so long after a newer version has come. "
                 "Versions after that one wait for it (default: 300)")
      ->type_name("SECONDS")
      ->transform(tool::real_number(0.1, kMaxSeconds));
  app.add_option("--keep", options.shelf.steps,
                 "changes that are kept for clients that come back (default: 64)")
      ->type_name("N")
      ->transform(tool::whole_number(1, std::size_t{1} << 20));
  app.add_option("--keep-bytes", options.shelf.bytes,
                 "memory for these; the newest is always kept (default: 1 GiB)")
      ->type_name("BYTES")
      ->transform(tool::whole_number());
  app.add_option("--chunk-bytes", options.shelf.chunk_bytes,
                 "of positions and values in a message, at most (default: 1 MiB)")
      ->type_name("BYTES")
      ->transform(tool::whole_number(std::uint64_t{1} << 10, std::uint64_t{1} << 30));
}

// Once all options are known.
void check_options(GatewayOptions& options) {
  replication::SubscriberOptions& subscriber = options.publisher.subscriber;
  if (options.publisher.address.empty() && options.store.url.empty())
    throw CLI::ValidationError("",
                               "no source of versions: give --publisher HOST:PORT or --store URL");
  if (options.store.url.empty())
    tool::take_credentials(subscriber.secret_path, subscriber.certificates_path);
  const bool is_named = options.model_id && !options.model_id->empty();
  if (!subscriber.trust_path.empty() && !is_named)
    throw CLI::ValidationError("--trust",
                               "needs --model-id ID: a key may sign several models. Give the ID "
                               "that the publisher was started with");
  if (subscriber.trust_threshold > 1 && subscriber.trust_path.empty())
    throw CLI::ValidationError("--trust-threshold", "needs --trust KEYFILE: name the keys");
  options.metrics.certificates_path = options.server.certificates_path;
  options.metrics.is_insecure = options.is_insecure;
  check_reach(options);
}

int run(int argc, char** argv, bool is_json) {
  CLI::App app(
      "sparcl-gateway: versions of a publisher or a store over gRPC, for workers in any language. "
      "Exit codes: 0 ok, 1 failure, 2 usage, 3 refused (integrity, base or signature).",
      "sparcl gateway");
  GatewayOptions options;
  app.set_version_flag("--version", std::string("sparcl-gateway ") + SPARCL_VERSION_TEXT);
  app.add_flag("--json", options.json, "lines of JSON instead of text");
  add_source_options(app, options);
  add_server_options(app, options);
  add_shelf_options(app, options);
  try {
    app.parse(argc, argv);
    check_options(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      return tool::print_usage_error(error.what(), "Try: sparcl gateway --help\n", is_json);
    std::ostringstream out;
    (void)app.exit(error, out, out);
    const Status written = tool::write_out(out.str());
    return written.ok() ? tool::kExitOk : tool::print_error(written, false);
  }
  tool::clean_up_on_signals();
  const Status status = run_gateway(std::move(options));
  return status.ok() ? tool::kExitOk : tool::print_error(status, is_json);
}

}  // namespace
}  // namespace sparcl::gateway

int main(int argc, char** argv) {
  sparcl::prepare_standard_streams();
  std::setlocale(LC_ALL, "C");  // numbers are read by it
  const std::span<char* const> arguments(argv + std::min(argc, 1), argv + argc);
  const bool is_json =
      std::ranges::any_of(arguments, [](std::string_view each) { return each == "--json"; });
  try {
    return sparcl::gateway::run(argc, argv, is_json);
  } catch (const std::bad_alloc&) {
    return sparcl::tool::print_out_of_memory();
  } catch (const std::exception& error) {  // of the standard library: the file system, threads
    return sparcl::tool::print_error(sparcl::Status(sparcl::Code::kSystemError, error.what()),
                                     is_json);
  }
}
