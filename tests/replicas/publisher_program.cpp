// Publishes versions of a model that changes, one JSON line a version.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/replicas/changing_model.hpp"

namespace {

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

int failed(const char* what) {
  say(fmt::format(R"({{"event":"failed","what":"{}"}})", what));
  std::fprintf(stderr, "%s: %s\n", what, sparclGetLastError(nullptr));
  return 1;
}

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long all = 0, resident = 0;
  statm >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

long descriptors() {
  long count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd"))
    count += each.path().empty() ? 0 : 1;
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("a publisher of a model that changes");
  std::string path, listen = "127.0.0.1:0";
  std::uint64_t elements = 1 << 20, first = 1, versions = 10, seed = 1;
  int interval_ms = 20, replicas = 0;
  double density = 0.01;
  app.add_option("--weights", path)->required();
  app.add_option("--listen", listen);
  app.add_option("--elements", elements);
  app.add_option("--first", first);
  app.add_option("--versions", versions);
  app.add_option("--seed", seed);
  app.add_option("--interval-ms", interval_ms);
  app.add_option("--density", density);
  app.add_option("--replicas", replicas, "wait at the end until so many hold the last version");
  CLI11_PARSE(app, argc, argv);

  sparcl::test::ChangingModel model(path, elements);
  if (!model.is_there()) return failed("the model");
  sparclPublisherOptions_t options = SPARCL_PUBLISHER_OPTIONS_INITIALIZER;
  options.listen = listen.c_str();
  options.insecure = sparclOn;  // on hosts of one machine
  sparclPublisher_t publisher = nullptr;
  if (sparclPublisherCreate(&publisher, model.state(), &options) != sparclSuccess)
    return failed("sparclPublisherCreate");
  char address[64];
  sparclPublisherAddress(publisher, address, sizeof address);
  say(fmt::format(R"({{"event":"listening","address":"{}"}})", address));

  std::mt19937_64 random(seed);
  double longest_s = 0;
  for (std::uint64_t version = first; version < first + versions; ++version) {
    const std::string hash = model.hash();
    say(fmt::format(R"({{"event":"version","version":{},"hash":"{}"}})", version,
                    hash));  // before anybody can hold it
    const auto begin = std::chrono::steady_clock::now();
    if (sparclPublish(publisher, version) != sparclSuccess) return failed("sparclPublish");
    longest_s = std::max(
        longest_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if ((version - first) % 10 == 9 || version == first + versions - 1) {
      say(fmt::format(R"({{"event":"size","version":{},"resident_kib":{},"descriptors":{}}})",
                      version, resident_kib(), descriptors()));
    }
    if (version + 1 < first + versions) model.step(random, density);
    std::this_thread::sleep_for(std::chrono::milliseconds(interval_ms));
  }
  say(fmt::format(R"({{"event":"published","longest_publish_s":{}}})", longest_s));
  if (replicas > 0 &&
      sparclPublisherWait(publisher, first + versions - 1, replicas, 120) != sparclSuccess)
    return failed("sparclPublisherWait");
  say(R"({"event":"held"})");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  sparclPublisherDestroy(publisher);
  return 0;
}
