#include "tools/sparcl/subscriber_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "tools/sparcl/console.hpp"

namespace sparcl::tool {
namespace {

// Several updates may change an element more than once.
std::string changes_text(const Arrived& arrived, std::uint64_t elements) {
  if (arrived.updates <= 1)
    return fmt::format("{} of {} elements changed", arrived.changed, elements);
  return fmt::format("{} changes to {} elements in {} updates", arrived.changed, elements,
                     arrived.updates);
}

}  // namespace

std::vector<Metric> subscriber_metrics(const replication::Subscriber& subscriber,
                                       const SwapCounts& counts, std::uint64_t failed_notices) {
  const auto one = [](const char* name, const char* help, Metric::Kind kind, double value) {
    return Metric{name, help, kind, {{{}, value}}};
  };
  constexpr Metric::Kind kGauge = Metric::Kind::kGauge, kCounter = Metric::Kind::kCounter;
  const replication::Subscriber::Versions versions = subscriber.versions();
  const Status trouble = subscriber.trouble();
  return {
      one("sparcl_subscriber_version", "Version that is held.", kGauge,
          static_cast<double>(versions.held)),
      one("sparcl_subscriber_newest_version", "Newest version that the publisher has told of.",
          kGauge, static_cast<double>(versions.newest)),
      one("sparcl_subscriber_file_version",
          "Version that FILE holds; 0: none that came since the start.", kGauge,
          static_cast<double>(counts.file_version)),
      one("sparcl_subscriber_failed_writes_total", "Times that FILE could not be written.",
          kCounter, static_cast<double>(counts.failed_writes)),
      one("sparcl_subscriber_failed_notices_total",
          "Times that a target of --notify did not take a version.", kCounter,
          static_cast<double>(failed_notices)),
      one("sparcl_subscriber_swaps_total", "Times that a newer version was applied.", kCounter,
          static_cast<double>(counts.swaps)),
      one("sparcl_subscriber_changed_elements_total", "Elements that these changed.", kCounter,
          static_cast<double>(counts.changed)),
      one("sparcl_subscriber_update_bytes_total", "Bytes of their updates.", kCounter,
          static_cast<double>(counts.bytes)),
      one("sparcl_subscriber_pause_seconds_total", "Time that applying took.", kCounter,
          counts.pause_s),
      one("sparcl_subscriber_last_pause_seconds", "The last one's.", kGauge, counts.last_pause_s),
      Metric{"sparcl_subscriber_trouble",
             "1 while something keeps versions from coming.",
             kGauge,
             {{{{"code", code_name(trouble.code())}}, trouble.ok() ? 0.0 : 1.0}}}};
}

void print_line(const Arrived& arrived, const ModelMemory& memory, bool as_json) {
  const char* source = arrived.is_of_files ? "files"
                       : arrived.by_anchor ? "anchor"
                       : arrived.by_repair ? "repair"
                       : arrived.bytes > 0 ? "delta"
                                           : "label";
  const Json json{{"version", arrived.version},
                  {"hash", to_hex(arrived.hash)},
                  {"changed", arrived.changed},
                  {"updates", arrived.updates},
                  {"elements", memory.view().map->element_count()},
                  {"bytes", arrived.bytes},
                  {"bytes_dense", memory.byte_count()},
                  {"damaged_blocks", arrived.damaged_blocks},
                  {"pause_ms", std::round(arrived.pause_s * 1e6) / 1e3},
                  {"source", source},
                  {"from_store", arrived.from_store}};
  print_news(as_json, json,
             fmt::format("version {}: {}, {} of {} ({}{}), pause {:.3f} ms, {}\n", arrived.version,
                         changes_text(arrived, memory.view().map->element_count()),
                         human_bytes(arrived.bytes), human_bytes(memory.byte_count()), source,
                         arrived.from_store ? " of the store" : "", arrived.pause_s * 1e3,
                         to_hex(arrived.hash)));
}

}  // namespace sparcl::tool
