/* SPDX-License-Identifier: MIT */
/*
 * Compiler attributes: clang's thread-safety analysis, which gcc ignores, and the usual few. The
 * analysis checks that a lock is released on every path; that a *_locked function's caller holds
 * it is asserted, since the analysis can't follow a lock through two pointers (clang 14).
 */
#ifndef CM_ALLOCATOR_BASE_ATTR_H
#define CM_ALLOCATOR_BASE_ATTR_H

#if defined(__clang__)
#define CM_CAPABILITY(name) __attribute__((capability(name)))
#define CM_ACQUIRES(...)    __attribute__((acquire_capability(__VA_ARGS__)))
#define CM_RELEASES(...)    __attribute__((release_capability(__VA_ARGS__)))
#define CM_TRIES(...)       __attribute__((try_acquire_capability(__VA_ARGS__)))
#define CM_REQUIRES(...)    __attribute__((requires_capability(__VA_ARGS__)))
#define CM_UNCHECKED        __attribute__((no_thread_safety_analysis))
#else
#define CM_CAPABILITY(name)
#define CM_ACQUIRES(...)
#define CM_RELEASES(...)
#define CM_TRIES(...)
#define CM_REQUIRES(...)
#define CM_UNCHECKED
#endif

#define CM_NODISCARD     __attribute__((warn_unused_result))
#define CM_LIKELY(x)     __builtin_expect(!!(x), 1)
#define CM_UNLIKELY(x)   __builtin_expect(!!(x), 0)
#define CM_NOINLINE      __attribute__((noinline))
#define CM_COLD          __attribute__((cold)) /* the way there is moved out of the way */
#define CM_ALWAYS_INLINE __attribute__((always_inline)) static inline

#endif
