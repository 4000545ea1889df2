/* Stands in for the NDK's <inttypes.h>: the formats that libunwind prints with. */
#pragma once
#include <stdint.h>
#define PRIu8 __UINT8_FMTu__
#define PRId64 __INT64_FMTd__
#define PRIu64 __UINT64_FMTu__
#define PRIx64 __UINT64_FMTx__
#define PRIuPTR __UINTPTR_FMTu__
#define PRIxPTR __UINTPTR_FMTx__
