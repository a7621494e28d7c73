#pragma once
// Plans the coding of a block's changes before a bit is written: one pass over all changes, then
// the form of their steps' sizes as src/codec chooses it.

#include "kernels/cuda/change_list.cuh"
#include "kernels/cuda/rice_list.cuh"
#include "kernels/cuda/step_codes.cuh"
#include "kernels/cuda/two_level_form.cuh"

namespace sparcl::kernels::cuda {

// One block's changes.
template <class Word>
struct BlockOfChanges {
  RiceGaps list;
  const Word* old_values;
  const Word* new_values;
  bool is_float;

  __device__ Step step(std::uint32_t i) const {
    return step_between(old_values[i], new_values[i], is_float);
  }
};

// How the sizes of its steps are coded.
struct StepForm {
  RiceGaps exceptions;  // changes with |d| != 1, by their number
  bool all;             // no list: all changes have a size
  unsigned exponent;
  std::uint32_t size_bits;
  ListSize list;  // of the exceptions

  __device__ std::uint32_t sizes(std::uint32_t changes) const {
    return all ? changes : exceptions.count;
  }
  __device__ std::uint32_t change(std::uint32_t size) const {
    return all ? size : exceptions.positions[size];
  }
  __device__ unsigned less() const { return all ? 1 : 2; }
};

struct EncodeShared {
  CompactionShared scan;
  BlockSumsShared sums;
  std::uint32_t
      widths[2][64];  // of the exceptions' sizes: as m if they are listed, as m if all are coded
  std::uint64_t estimates[64];
  StripeKeys stripe_keys;
  StepForm form;             // these four are the same for all threads
  ListSize list;             // of the changes
  std::uint32_t exceptions;  // how many of them
  DeviceChangeHashes hashes;
  TwoLevelShared two_level;
  std::uint32_t window[kWindowWords];
};

struct ExponentChoice {
  unsigned exponent = 0;
  std::uint64_t bits = 0;
};

// The exponent for sizes with these widths. Every thread evaluates one exponent, and all get the
// same result.
__device__ inline ExponentChoice choose_exponent(EncodeShared& shared,
                                                 const std::uint32_t* widths) {
  unsigned top = 0;
  for (unsigned b = 0; b < 64; ++b) top = widths[b] > 0 ? b : top;
  const unsigned most = top + 1 < kMaxGammaExponent ? top + 1 : kMaxGammaExponent;
  __syncthreads();  // the estimates of the previous call have been read
  if (threadIdx.x <= most)
    shared.estimates[threadIdx.x] = about_gamma_bits(widths, top, threadIdx.x);
  __syncthreads();
  ExponentChoice best{0, shared.estimates[0]};
  for (unsigned e = 1; e <= most && shared.estimates[e] < best.bits; ++e)
    best = {e, shared.estimates[e]};
  return best;
}

// One pass over all changes: the size of their list, the hashes of their values, the exceptions and
// the exceptions' widths. The exceptions are marks in the window, which is not in use yet.
template <class Word>
__device__ inline void look_at_changes(EncodeShared& shared, const BlockOfChanges<Word>& changes) {
  std::uint64_t own = 0;
  ChangeSums sums;
  const unsigned lane = threadIdx.x % kWarp;
  for (std::uint32_t group = threadIdx.x / kWarp * kWarp; group < changes.list.count;
       group += kThreads) {
    const std::uint32_t i = group + lane;
    bool is_exception = false;
    if (i < changes.list.count) {
      own += size_of_entry(changes.list.parts(i));
      sums.add<Word>(shared.stripe_keys, changes.list.positions[i], changes.old_values[i],
                     changes.new_values[i]);
      const std::uint64_t magnitude = changes.step(i).magnitude;
      is_exception = magnitude != 1;
      if (is_exception) {
        own += kAboveLists;
        const std::uint64_t size = coded_size(magnitude, 2);
        atomicAdd(&shared.widths[0][floor_log2(size + 1)], 1U);
        atomicAdd(&shared.widths[1][floor_log2(size + 2)], 1U);
      }
    }
    const std::uint32_t marks = __ballot_sync(kAllLanes, is_exception);
    if (lane == 0) shared.window[group / 32] = marks;
  }
  const std::uint64_t sum = sums_of_block(
      shared.sums, {sums.before.low, sums.before.high, sums.after.low, sums.after.high, own});
  if (threadIdx.x < 4) words_of(shared.hashes)[threadIdx.x] = sum;
  if (threadIdx.x == 4) {
    shared.list = size_of_list(changes.list, sum);
    shared.exceptions = static_cast<std::uint32_t>(sum / kAboveLists);
  }
  __syncthreads();
}

// Writes the marked of `count` numbers to `listed`, ascending.
__device__ inline void list_marked(CompactionShared& scan, const std::uint32_t* marks,
                                   std::uint32_t count, std::uint16_t* listed) {
  const std::uint32_t words = (count + 31) / 32, each = (words + kThreads - 1) / kThreads;
  const std::uint32_t begin = threadIdx.x * each, end = begin + each < words ? begin + each : words;
  std::uint32_t own = 0, total = 0;
  for (std::uint32_t w = begin; w < end; ++w) own += static_cast<std::uint32_t>(__popc(marks[w]));
  std::uint32_t number = sum_before(scan, own, &total);
  for (std::uint32_t w = begin; w < end; ++w) {
    for (std::uint32_t bits = marks[w]; bits != 0; bits &= bits - 1)
      listed[number++] = static_cast<std::uint16_t>(
          32 * w + static_cast<unsigned>(__ffs(static_cast<int>(bits)) - 1));
  }
  __syncthreads();
}

// As src/codec chooses: lists the exceptions or codes all changes, whichever estimate is smaller.
template <class Word>
__device__ inline StepForm choose_form(EncodeShared& shared, const BlockOfChanges<Word>& changes,
                                       std::uint16_t* listed) {
  const std::uint32_t count = changes.list.count;
  StepForm form{
      {listed, shared.exceptions, gap_divisor(count, shared.exceptions)}, false, 0, 0, {0, 0}};
  if (shared.exceptions == 0) return form;
  list_marked(shared.scan, shared.window, count, listed);
  const std::uint32_t others = count - shared.exceptions;
  form.list = measure_list(shared.sums, form.exceptions);
  const ExponentChoice of_listed = choose_exponent(shared, shared.widths[0]);
  form.exponent = of_listed.exponent;
  const std::uint32_t list_bits = form.list.plane_bits + form.list.unary_bits;
  if (list_bits > others) {  // otherwise each of the others would cost at least a bit
    if (threadIdx.x == 0) shared.widths[1][0] += others;
    __syncthreads();
    const ExponentChoice of_all = choose_exponent(shared, shared.widths[1]);
    form.all = of_all.bits < of_listed.bits + list_bits;
    if (form.all) form.exponent = of_all.exponent;
  }
  std::uint64_t own = 0;
  for (std::uint32_t i = threadIdx.x; i < form.sizes(count); i += kThreads) {
    const std::uint64_t size = coded_size(changes.step(form.change(i)).magnitude, form.less());
    own += 2 * floor_log2((size >> form.exponent) + 1) + 1 + form.exponent;
  }
  form.size_bits = static_cast<std::uint32_t>(sum_of_block(shared.sums, own));
  return form;
}

}  // namespace sparcl::kernels::cuda
