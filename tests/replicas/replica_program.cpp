// Keeps a model at the newest version, one JSON line a version; ends when it holds the last one and
// the publisher has left.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "tests/replicas/changing_model.hpp"

namespace {

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("a replica of a model");
  std::string path, address;
  std::uint64_t elements = 1 << 20, until = 10;
  int serve_ms = 0;
  app.add_option("--weights", path)->required();
  app.add_option("--address", address)->required();
  app.add_option("--elements", elements);
  app.add_option("--until", until);
  app.add_option("--serve-ms", serve_ms, "between two looks for a newer version");
  CLI11_PARSE(app, argc, argv);

  sparcl::test::ChangingModel model(path, elements);
  sparclSubscriber_t subscriber = nullptr;
  if (!model.is_there() || sparclSubscriberCreate(&subscriber, model.state(), address.c_str(),
                                                  nullptr) != sparclSuccess) {
    std::fprintf(stderr, "%s\n", sparclGetLastError(nullptr));
    return 1;
  }
  std::uint64_t version = 0;
  for (sparclResult_t result = sparclSuccess; version < until || result != sparclRemoteError;) {
    result = sparclSubscriberNext(subscriber, 0.2, &version);
    if (result == sparclSuccess) {
      // What is served is what the tensors hold, not what a message said.
      say(fmt::format(R"({{"event":"holds","version":{},"hash":"{}"}})", version, model.hash()));
    } else {
      say(fmt::format(R"({{"event":"waits","code":{}}})", static_cast<int>(result)));
      // The publisher may be away or late; all else is a fault of somebody's.
      if (result != sparclTimeout && result != sparclRemoteError) {
        std::fprintf(stderr, "%s\n", sparclGetLastError(nullptr));
        return 2;
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(serve_ms));
  }
  sparclSubscriberDestroy(subscriber);
  return 0;
}
