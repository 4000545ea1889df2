/* Stands in for the NDK's <link.h> and <elf.h>: the part that libunwind uses, after the ELF specification. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define PT_LOAD 1
#define PT_GNU_EH_FRAME 0x6474e550

typedef struct {
    uint32_t p_type;
    uint32_t p_offset, p_vaddr, p_paddr;
    uint32_t p_filesz, p_memsz;
    uint32_t p_flags, p_align;
} Elf32_Phdr;
typedef struct {
    uint32_t p_type, p_flags;
    uint64_t p_offset, p_vaddr, p_paddr;
    uint64_t p_filesz, p_memsz, p_align;
} Elf64_Phdr;
typedef uint16_t Elf32_Half, Elf64_Half;
typedef uint32_t Elf32_Addr;
typedef uint64_t Elf64_Addr;
#if defined(__LP64__)
#define ElfW(type) Elf64_##type
#else
#define ElfW(type) Elf32_##type
#endif

/* Without the fields that bionic has from API 30 on: libunwind asks for the size that it is given. */
struct dl_phdr_info {
    ElfW(Addr) dlpi_addr;
    const char *dlpi_name;
    const ElfW(Phdr) *dlpi_phdr;
    uint16_t dlpi_phnum;
};

#ifdef __cplusplus
extern "C" {
#endif
int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *info, size_t size, void *data), void *data);
#if defined(__arm__)
typedef long unsigned int *_Unwind_Ptr;
_Unwind_Ptr dl_unwind_find_exidx(_Unwind_Ptr pc, int *count);
#endif
#ifdef __cplusplus
}
#endif
