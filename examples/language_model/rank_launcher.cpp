#include "rank_launcher.hpp"

#include <exception>
#include <thread>
#include <utility>
#include <vector>

namespace training {
namespace {

std::exception_ptr run_rank(sparcl::Comm& comm, const RankBody& body) {
  try {
    body(comm);
    return nullptr;
  } catch (...) {
    // The others wait for this rank in their next call: tell them.
    (void)sparclCommAbort(comm.get());
    return std::current_exception();
  }
}

bool is_news(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return is_news_of_another(known);
  } catch (...) {
    return false;
  }
}

}  // namespace

bool is_news_of_another(const std::exception& error) {
  const auto* known = dynamic_cast<const sparcl::Error*>(&error);
  return known != nullptr && known->result() == sparclRemoteError;
}

void run_as_threads(int ranks, const RankBody& body) {
  std::vector<sparcl::Comm> comms = sparcl::Comm::local(ranks);
  std::vector<std::exception_ptr> errors(comms.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < comms.size(); ++rank) {
      threads.emplace_back([&, rank] { errors[rank] = run_rank(comms[rank], body); });
    }
  }
  std::exception_ptr worst;
  for (const std::exception_ptr& error : errors) {
    if (error && (!worst || (is_news(worst) && !is_news(error)))) worst = error;
  }
  if (worst) std::rethrow_exception(worst);
}

}  // namespace training
