/*
 * System calls without libc: no errno, no cancellation, nothing that touches thread-local state.
 * For the child of spawn.c, which shares memory with its parent. The result is the kernel's:
 * negative errno on failure.
 */
#ifndef CV_SUPERVISOR_RAWCALL_H
#define CV_SUPERVISOR_RAWCALL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__) && !defined(CV_SPAWN_FORK)
#define CV_RAWCALL_NATIVE 1

static inline long cv_rawcall(long number, long a, long b, long c, long d)
{
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__) && !defined(CV_SPAWN_FORK)
#define CV_RAWCALL_NATIVE 1

static inline long cv_rawcall(long number, long a, long b, long c, long d)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}

#else
/* Elsewhere the child is a fork with memory of its own, so libc is safe. */

static inline long cv_rawcall(long number, long a, long b, long c, long d)
{
    long result = syscall(number, a, b, c, d);
    return result < 0 ? -errno : result;
}

#endif
#endif
