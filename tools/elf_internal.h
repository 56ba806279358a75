/* elf_internal.h -- what elf_symbols.c (symbol tables) and elf_lines.c (libdw) share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_ELF_INTERNAL_H
#define VG_ELF_INTERNAL_H

#include <elfutils/libdw.h>
#include <gelf.h>

#include "tools/elf_symbols.h"

/* Which compilation unit a range of addresses belongs to. */
struct vg_elf_range {
    uint64_t low, high;
    Dwarf_Off unit;
};

struct vg_elf {
    int fd, debug_fd; /* debug_fd -1: no separate debug file */
    Elf *elf, *debug_elf;
    struct vg_elf_symbol *symbols; /* by address */
    size_t symbol_count;
    bool symbols_read, dwarf_tried, ranges_read;
    Dwarf *dwarf;
    struct vg_elf_range *ranges; /* by address; only where the file has no aranges for an address */
    size_t range_count;
};

/* Closes what elf_lines.c opened. */
void vg_elf_lines_close(struct vg_elf *elf);

#endif
