/*
 * Compiled, not linked, for each ABI with the flags of zstd: fails if a header gives a type
 * another size or alignment than the ABI does. A uint64_t of 4 bytes compresses garbage.
 */
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__LP64__)
#define WORD 8
#else
#define WORD 4
#endif
/* The i386 ABI aligns 8 bytes to 4 within a structure; all others to 8. */
#if defined(__i386__)
#define ALIGN_64 4
#else
#define ALIGN_64 8
#endif

#define IS(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)

_Static_assert(CHAR_BIT == 8, "CHAR_BIT");
IS(short, 2);
IS(int, 4);
IS(long, WORD);
IS(long long, 8);
IS(void *, WORD);
IS(size_t, WORD);
IS(ptrdiff_t, WORD);
IS(intptr_t, WORD);
IS(uintptr_t, WORD);
IS(int8_t, 1);
IS(int16_t, 2);
IS(int32_t, 4);
IS(int64_t, 8);
IS(uint8_t, 1);
IS(uint16_t, 2);
IS(uint32_t, 4);
IS(uint64_t, 8);
IS(intmax_t, 8);
IS(uintmax_t, 8);
IS(wchar_t, 4);
IS(float, 4);
IS(double, 8);
_Static_assert((int64_t)-1 < 0 && (uint64_t)-1 > 0, "signs");
_Static_assert((int32_t)-1 < 0 && (uint32_t)-1 > 0, "signs");
_Static_assert((size_t)-1 > 0 && (ptrdiff_t)-1 < 0, "signs");
_Static_assert(SIZE_MAX == (size_t)-1, "SIZE_MAX");
_Static_assert(UINT64_MAX == (uint64_t)-1 && UINT32_MAX == (uint32_t)-1, "maxima");
_Static_assert(INT_MAX == 0x7fffffff && UINT_MAX == 0xffffffff, "maxima");
_Static_assert(LONG_MAX == (long)(~0UL >> 1), "LONG_MAX");

struct aligned_64 {
    char first;
    uint64_t second;
};
_Static_assert(offsetof(struct aligned_64, second) == ALIGN_64, "alignment of uint64_t");
struct aligned_word {
    char first;
    void *second;
};
_Static_assert(offsetof(struct aligned_word, second) == WORD, "alignment of pointers");
