#include "tools/sparcl/model_wait.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/model/text.hpp"
#include "src/net/socket.hpp"
#include "src/replication/model_description.hpp"
#include "src/replication/query.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/signals.hpp"
#include "tools/sparcl/trouble_teller.hpp"

namespace sparcl::tool {
namespace {

constexpr double kAskSeconds = 1;  // between two questions
constexpr double kLastAskSeconds =
    16;  // the same after a refused answer: twice as long each time; heuristic
constexpr double kMinPatience = 0.1;
constexpr double kMaxPatience =
    8;  // for an answer, because a link may be slow; twice as long each time

// Says why there is no model yet, each time that the reason changes.
class Waiting {
 public:
  void tell(const Status& why) {
    // A timeout says less than an earlier answer.
    if (why_.ok() || why.code() != Code::kTimeout) why_ = why;
    if (why.message() == told_) return;
    told_ = why.message();
    print_note(
        fmt::format("waiting: {}{}", told_,
                    is_refusal(why.code()) ? fmt::format(" ({})", code_name(why.code())) : ""));
  }
  const Status& why() const { return why_; }

 private:
  Status why_;
  std::string told_;
};

// is_final: further questions are useless.
Result<PublishedModel> ask_for_model(const ModelQuestion& question, double patience_s,
                                     bool& is_final) {
  SPARCL_ASSIGN_OR_RETURN(
      const replication::ModelReply reply,
      replication::query_model(question.address, patience_s, question.latest, question.security));
  const std::string prefix = fmt::format("publisher {}: ", question.address);
  if (question.model_id && *question.model_id != reply.model_id) {
    return Status(Code::kMismatch, fmt::format("{}it has the model {}, asked for is {}", prefix,
                                               model::in_quotes(reply.model_id),
                                               model::in_quotes(*question.model_id)));
  }
  if (question.trusted != nullptr) {
    SPARCL_RETURN_IF_ERROR(
        replication::check_description(reply, *question.trusted, question.latest.epoch)
            .with_prefix(prefix));
  }
  Result<PublishedModel> published = read_published_model(reply, question.parts);
  is_final = published.ok() ||
             (!question.parts.is_all() && published.status().code() == Code::kInvalidArgument);
  return is_final ? std::move(published)
                  : Result<PublishedModel>(published.status().with_prefix(prefix));
}

enum class Pause { kOver, kStopped };

// Ends early if the question is new.
Pause pause_before_next(ModelQuestion& question, double seconds) {
  const double until = net::monotonic_seconds() + seconds;
  for (double left = seconds; left > 0; left = until - net::monotonic_seconds()) {
    if (wait_for_stop(std::min(left, kAskSeconds))) return Pause::kStopped;
    if (question.renew && question.renew(question)) break;
  }
  return Pause::kOver;
}

Status given_up(const Status& why, double seconds) {
  const char* what = is_refusal(why.code()) ? "no answer of a publisher could be taken"
                                            : "no publisher has given its model";
  return why.with_prefix(fmt::format("{} within {:g} s: ", what, seconds));
}

}  // namespace

Result<std::optional<PublishedModel>> wait_for_model(ModelQuestion question) {
  const double deadline = net::monotonic_seconds() + question.timeout_s;
  Waiting waiting;
  double pause_s = kAskSeconds;
  for (double patience_s = kAskSeconds;; patience_s = std::min(2 * patience_s, kMaxPatience)) {
    const double left = std::max(deadline - net::monotonic_seconds(), kMinPatience);
    bool is_final = false;
    Result<PublishedModel> model = ask_for_model(question, std::min(patience_s, left), is_final);
    if (model.ok()) return std::optional(std::move(*model));
    if (is_final) return model.status();
    waiting.tell(model.status());
    if (question.elsewhere && !is_refusal(model.status().code())) {
      if (std::optional<PublishedModel> found = question.elsewhere()) return found;
    }
    const double pause = std::min(pause_s, deadline - net::monotonic_seconds());
    if (pause < kMinPatience)
      return given_up(waiting.why(), question.timeout_s);  // there is no time for an answer
    if (pause_before_next(question, pause) == Pause::kStopped)
      return std::optional<PublishedModel>();
    pause_s =
        is_refusal(model.status().code()) ? std::min(2 * pause_s, kLastAskSeconds) : kAskSeconds;
  }
}

}  // namespace sparcl::tool
