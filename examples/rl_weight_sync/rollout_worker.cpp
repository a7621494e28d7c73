#include "rollout_worker.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <language_model/bf16_rounding.hpp>
#include <language_model/char_text.hpp>
#include <language_model/text_sampler.hpp>
#include <language_model/transformer.hpp>
#include <stdexcept>

#include "bf16_weights.hpp"
#include "rollout_channel.hpp"

namespace training {
namespace {

constexpr int kRolloutsAVersion = 2;  // then it waits for the next one, which bounds the lag
constexpr int kIdleMilliseconds = 1;
constexpr std::int64_t kPatience_ns = 60'000'000'000;  // without a new version
constexpr std::uint64_t kSampleStream = 200'000;

class RolloutWorker {
 public:
  explicit RolloutWorker(const WorkerOptions& options)
      : channel_(options.channel),
        text_(read_text(options.text)),
        sampler_(shape_of(parse_model_size(options.size_name), text_.vocabulary()), kSequences),
        weights_(sampler_.layout()),
        compute_(weights_.values().size()),
        subscriber_(weights_.state(), options.address),
        random_(options.seed, kSampleStream + options.stream),
        last_swap_ns_(now_ns()) {}

  void run() {
    while (!channel_.is_over()) {
      take_newest();
      if (version_ != 0 && sampled_ < kRolloutsAVersion) {
        send_rollout();
      } else {
        channel_.wait(kIdleMilliseconds);
      }
      (void)channel_.receive();  // the trainer only ever says no more
    }
    RolloutMessage goodbye;
    goodbye.head.kind = MessageKind::kGoodbye;
    goodbye.head.version = subscriber_.held();
    goodbye.head.hash = weights_.hash();
    (void)channel_.send(goodbye);
  }

 private:
  // next(0) waits for nothing: where it swaps, its time is the pause.
  void take_newest() {
    const std::int64_t begin = now_ns();
    std::optional<std::uint64_t> version;
    try {
      version = subscriber_.next(0);
    } catch (const sparcl::Error&) {  // the subscriber tries again, and so does the worker
      if (begin - last_swap_ns_ > kPatience_ns) throw;
    }
    const std::int64_t end = now_ns();
    if (!version && end - last_swap_ns_ > kPatience_ns)
      throw std::runtime_error("no new version has come for a minute");
    if (!version) return;
    RolloutMessage swapped;
    swapped.head.version = *version;
    swapped.head.pause_s = version_ != 0 ? 1e-9 * static_cast<double>(end - begin) : 0;
    swapped.head.at_ns = last_swap_ns_ = end;
    (void)channel_.send(swapped);
    version_ = *version;
    sampled_ = 0;
    expand_to_float(weights_.values(), compute_);
  }

  void send_rollout() {
    const int context = sampler_.shape().context;
    RolloutMessage rollout;
    rollout.head.kind = MessageKind::kRollout;
    rollout.head.version = version_;
    const int prompt = context - kNewCharacters;
    rollout.tokens = draw_batch(text_.training(), kSequences, prompt, random_).tokens;
    rollout.tokens.resize(static_cast<std::size_t>(context) * kSequences);
    complete(sampler_, compute_, rollout.tokens, prompt, context, 1, random_);
    (void)channel_.send(rollout);  // where the trainer has no room for it, it is old
    ++sampled_;
  }

  RolloutChannel channel_;
  CharText text_;
  Transformer sampler_;
  Bf16Weights weights_;
  std::vector<float> compute_;  // weights_ as fp32
  sparcl::Subscriber subscriber_;
  SeededRandom random_;
  std::int64_t last_swap_ns_;
  std::uint64_t version_ = 0;
  int sampled_ = 0;
};

}  // namespace

void run_rollout_worker(const WorkerOptions& options) {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != options.parent)
    throw std::runtime_error("the trainer is gone");  // it died before prctl
  RolloutWorker(options).run();
}

}  // namespace training
