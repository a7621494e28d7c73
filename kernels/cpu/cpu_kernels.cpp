// SIMD bodies, written once with Highway and compiled for each instruction set: foreach_target.h
// includes this file again for each one. Only this file plays that game; the .inl files are its
// chapters.

#define HWY_WANT_AVX3_DL 1  // VBMI2's compress of 16-bit lanes is what the diff lives on
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cpu_kernels.cpp"
// clang-format off
#include <hwy/foreach_target.h>  // first
#include <hwy/cache_control.h>
#include <hwy/highway.h>
// clang-format on

#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "kernels/kernel_set.hpp"
#include "kernels/ref/ref_accumulate.hpp"
#include "kernels/ref/ref_classes.hpp"
#include "kernels/ref/ref_entry_sum.hpp"
#include "kernels/ref/ref_reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace sparcl::kernels::HWY_NAMESPACE {
#if HWY_TARGET == \
    HWY_SCALAR  // a machine without SIMD, or a compiler without EMU128: the reference is as good

void fill_kernel_set(KernelSet& set) { set = reference_kernels(); }

#else
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// In this order: bits.inl comes first, the others use it.
// clang-format off
#include "kernels/cpu/bits.inl"

#include "kernels/cpu/access.inl"
#include "kernels/cpu/bit_list.inl"
#include "kernels/cpu/copy_sum.inl"
#include "kernels/cpu/diff.inl"
#include "kernels/cpu/gamma.inl"
#include "kernels/cpu/rans.inl"
#include "kernels/cpu/reduce.inl"
#include "kernels/cpu/select.inl"
#include "kernels/cpu/accumulate.inl"
#include "kernels/cpu/entry_identity.inl"
#include "kernels/cpu/entry_merge.inl"
#include "kernels/cpu/entry_sum.inl"
#include "kernels/cpu/step.inl"

#include "kernels/cpu/class_lists.inl"
#include "kernels/cpu/classes.inl"
#include "kernels/cpu/word_hash.inl"
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#include "kernels/cpu/change_hash_avx512.inl"
#else
#include "kernels/cpu/change_hash.inl"
#endif
// clang-format on

template <class T, Numbers kNumbers>
SelectKernels select_of() {
  return {find_at_least<T, kNumbers>, magnitude_keys<T, kNumbers>};
}

template <class T, class Signed>
ElementKernels elements_of() {
  return {diff<T>,
          diff_values<T>,
          gather<T>,
          scatter<T>,
          exchange<T>,
          find_not_one<T>,
          unit_steps<Signed>,
          hash_changes<T>,
          {split_steps<Signed, false>, add_steps<Signed, false>, add_steps_at<T, false>},
          {split_steps<Signed, true>, add_steps<Signed, true>, add_steps_at<T, true>},
          {select_of<T, Numbers::kUnsigned>(), select_of<T, Numbers::kSigned>(),
           select_of<T, Numbers::kFloat>()}};
}

}  // namespace

void fill_kernel_set(KernelSet& set) {
  set.space = MemorySpace::kHost;
  set.elements = {
      elements_of<std::uint8_t, std::int8_t>(), elements_of<std::uint16_t, std::int16_t>(),
      elements_of<std::uint32_t, std::int32_t>(), elements_of<std::uint64_t, std::int64_t>()};
  set.lists = {split_gaps<std::uint16_t>,
               join_gaps<std::uint16_t>,
               split_gaps<std::uint32_t>,
               join_gaps<std::uint32_t>,
               pack_planes,
               unpack_planes,
               pack_trits,
               unpack_trits,
               write_marks,
               find_marks};
  set.gammas = {gamma_widths, gamma_lengths, write_gammas, read_gammas};
  set.rans = {rans_encode, rans_decode};
  set.hash_words = hash_words;
  set.copy_sum = copy_sum;
  set.reduces = reduces();
  set.accumulates = accumulates();
  set.entries = entries();
  set.classes = {diff_classes,     find_class_steps, add_class_steps, take_nonzero,
                 split_byte_steps, split_ranks,      join_ranks,      write_long_marks,
                 find_long_marks,  read_sizes};
}

#endif
}  // namespace sparcl::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparcl::kernels {
namespace {

HWY_EXPORT(fill_kernel_set);

struct CpuTables {
  std::vector<std::string> names;
  std::vector<KernelSet> sets;

  CpuTables() {
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {  // best first
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      names.push_back(std::string("cpu (") + hwy::TargetName(target) + ")");
      HWY_DYNAMIC_DISPATCH(fill_kernel_set)(sets.emplace_back());
    }
    hwy::SetSupportedTargetsForTest(0);
    for (std::size_t i = 0; i < sets.size(); ++i) sets[i].name = names[i].c_str();
  }
};

}  // namespace

const std::vector<KernelSet>& all_cpu_kernels() {
  static const CpuTables tables;
  return tables.sets;
}

const KernelSet& cpu_kernels() { return all_cpu_kernels().front(); }

}  // namespace sparcl::kernels
#endif  // HWY_ONCE
