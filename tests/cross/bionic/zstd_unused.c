/*
 * Stands in for parts of zstd that level 1 without a dictionary does not need: long-distance matching, superblocks,
 * dictionaries, the splitting of blocks. The linker's --wrap takes these instead (../android), and leaves the originals
 * out. Each does what is right if it is entered after all: a block compressor finds no match and leaves the whole
 * block as literals, a superblock does not shrink, long-distance matching is off.
 */
#include <stddef.h>

#define INSTEAD_OF(name) __attribute__((visibility("hidden"))) size_t __wrap_##name

INSTEAD_OF(ZSTD_ldm_adjustParameters)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_fillHashTable)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_generateSequences)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_getMaxNbSeq)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_getTableSize)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_skipRawSeqStoreBytes)(void) { return 0; }
INSTEAD_OF(ZSTD_ldm_skipSequences)(void) { return 0; }
INSTEAD_OF(ZSTD_compressSuperBlock)(void) { return 0; }
INSTEAD_OF(ZSTD_fillHashTable)(void) { return 0; }
/* They read the tables of dictionaries: ERROR(dictionary_corrupted). */
INSTEAD_OF(HUF_readCTable)(void) { return (size_t)-30; }
INSTEAD_OF(FSE_readNCount)(void) { return (size_t)-30; }

/* Says where a block of 128 KB ends best: at its end, as before zstd 1.5.7. No trace of a phone gets smaller by it. */
INSTEAD_OF(ZSTD_splitBlock)(const void *text, size_t bytes) {
    (void)text;
    return bytes;
}

INSTEAD_OF(ZSTD_ldm_blockCompress)
(void *sequences, void *state, void *store, unsigned *repeats, int finder, const void *text, size_t bytes) {
    (void)sequences, (void)state, (void)store, (void)repeats, (void)finder, (void)text;
    return bytes;
}
INSTEAD_OF(ZSTD_compressBlock_fast_dictMatchState)
(void *state, void *store, unsigned *repeats, const void *text, size_t bytes) {
    (void)state, (void)store, (void)repeats, (void)text;
    return bytes;
}
INSTEAD_OF(ZSTD_compressBlock_fast_extDict)
(void *state, void *store, unsigned *repeats, const void *text, size_t bytes) {
    (void)state, (void)store, (void)repeats, (void)text;
    return bytes;
}
