#pragma once
// A fiber: a function on a stack of its own, which goes on where it left. By ucontext; where that may be, by a switch that leaves
// the signal mask alone: swapcontext asks the kernel for it twice, which was half of what the emulation took.

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SPARCL_OWN_SWITCH 1
// Saves what a function has to keep on the stack it is called on, and returns on the other one. A symbol of this file alone.
extern "C" void sparcl_switch_stack(void** from, void* to);
asm(R"(
.text
.type sparcl_switch_stack, @function
sparcl_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sparcl_switch_stack, .-sparcl_switch_stack
)");
#else
#define SPARCL_OWN_SWITCH 0
#endif

namespace sparcl::test::emulated {

// Where somebody goes on: a fiber, or who runs them.
class Context {
 public:
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    if (stack_ != nullptr) spare_stacks().push_back(std::move(stack_));
  }

  // The first switch to it calls enter(), which never returns.
  void begin(void (*enter)()) {
    stack_ = take_stack();
#if SPARCL_OWN_SWITCH
    auto* const end = reinterpret_cast<std::uintptr_t*>((reinterpret_cast<std::uintptr_t>(stack_.get()) + kStackBytes) / 16 * 16);
    std::uintptr_t* const top = end - 2 - kSavedWords;  // so that the stack is aligned as after a call
    for (std::size_t i = 0; i < kSavedWords; ++i) top[i] = 0;
    top[kSavedWords] = reinterpret_cast<std::uintptr_t>(enter);
    top_ = top;
#else
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_.get();
    context_.uc_stack.ss_size = kStackBytes;
    makecontext(&context_, enter, 0);
#endif
  }

  static void switch_to(Context& from, Context& to) {
#if SPARCL_OWN_SWITCH
    sparcl_switch_stack(&from.top_, to.top_);
#else
    swapcontext(&from.context_, &to.context_);
#endif
  }

 private:
  static constexpr std::size_t kStackBytes = 64 * 1024;
  static constexpr std::size_t kSavedWords = 6;

  // Kept, as a launch has thousands, and each new one would cost the kernel its pages.
  static std::vector<std::unique_ptr<char[]>>& spare_stacks() {
    static thread_local std::vector<std::unique_ptr<char[]>> stacks;
    return stacks;
  }
  static std::unique_ptr<char[]> take_stack() {
    auto& spare = spare_stacks();
    if (spare.empty()) return std::make_unique_for_overwrite<char[]>(kStackBytes);
    std::unique_ptr<char[]> stack = std::move(spare.back());
    spare.pop_back();
    return stack;
  }

  std::unique_ptr<char[]> stack_;  // of a fiber
#if SPARCL_OWN_SWITCH
  void* top_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

}  // namespace sparcl::test::emulated
