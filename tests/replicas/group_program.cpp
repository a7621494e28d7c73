// A rank of a group that shows versions together, one JSON line a version. After the death of a
// rank it says what it shows, and ends.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "tests/replicas/changing_model.hpp"

namespace {

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

// Rank 0 makes the id. It says it, and the others are given it.
bool meet(const std::string& given, int rank, int ranks, sparclComm_t* comm) {
  sparclUniqueId id;
  if (given.empty()) {
    if (sparclGetUniqueId(&id) != sparclSuccess) return false;
    std::string hex;
    for (const char byte : id.internal)
      hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    say(fmt::format(R"({{"event":"id","id":"{}"}})", hex));
  } else {
    for (std::size_t i = 0; i < sizeof id.internal; ++i)
      id.internal[i] = static_cast<char>(std::stoi(given.substr(2 * i, 2), nullptr, 16));
  }
  return sparclCommInitRank(comm, ranks, id, rank, nullptr) == sparclSuccess;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("a rank of a group of replicas");
  std::string path, address, id;
  std::uint64_t elements = 1 << 16, until = 10;
  int rank = 0, ranks = 1;
  app.add_option("--weights", path)->required();
  app.add_option("--address", address)->required();
  app.add_option("--id", id);
  app.add_option("--elements", elements);
  app.add_option("--until", until);
  app.add_option("--rank", rank);
  app.add_option("--ranks", ranks);
  CLI11_PARSE(app, argc, argv);

  sparclComm_t comm = nullptr;
  sparcl::test::ChangingModel model(path, elements);
  sparclSubscriber_t subscriber = nullptr;
  if (!model.is_there() || !meet(id, rank, ranks, &comm) ||
      sparclSubscriberCreate(&subscriber, model.state(), address.c_str(), nullptr) !=
          sparclSuccess) {
    std::fprintf(stderr, "%s\n", sparclGetLastError(nullptr));
    return 1;
  }
  std::uint64_t version = 0;
  sparclResult_t result = sparclSuccess;
  while (version < until && result == sparclSuccess) {
    result = sparclSubscriberNextGroup(subscriber, 30, &version, comm);
    if (result == sparclSuccess)
      say(fmt::format(R"({{"event":"holds","version":{},"hash":"{}"}})", version, model.hash()));
  }
  if (result != sparclSuccess) {
    std::uint64_t held = 0;
    int failed = -1;
    (void)sparclSubscriberVersion(subscriber, &held, nullptr);
    (void)sparclCommGetFailedRank(comm, &failed);
    say(fmt::format(R"({{"event":"failed","code":{},"rank":{},"version":{},"hash":"{}"}})",
                    static_cast<int>(result), failed, held, model.hash()));
    std::fprintf(stderr, "%s\n", sparclGetLastError(comm));
    (void)sparclCommAbort(comm);
  }
  (void)sparclSubscriberDestroy(subscriber);
  (void)sparclCommDestroy(comm);
  return 0;
}
